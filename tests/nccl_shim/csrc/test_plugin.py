"""The NCCL plugin under a replay of NCCL's calls, with address and undefined-behaviour sanitizers."""

import graphlib
import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from nccl_shim import build
from nccl_shim.segment.layout import Kind
from nccl_shim.segment.reader import Reader
from nccl_shim.segment.snapshot import ProcessSnapshot

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]


@pytest.fixture(scope="session")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Driver and plugin, both sanitized."""
    place = tmp_path_factory.mktemp("sanitized")
    plugin = build.build(place / "plugin.so", ["-Werror", *SANITIZE])
    return [str(compile_driver(place, SANITIZE)), str(plugin)]


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory, library_path: Path) -> list[str]:
    return [str(compile_driver(tmp_path_factory.mktemp("plain"), [])), str(library_path)]


def compile_driver(place: Path, flags: list[str]) -> Path:
    driver = place / "replay"
    build.run_compiler(
        [
            "-std=c11",
            "-O2",
            "-g",
            "-Wall",
            "-Werror",
            *flags,
            str(HERE / "replay.c"),
            "-o",
            str(driver),
            "-ldl",
            "-pthread",
        ]
    )
    return driver


def replay(command: list[str], env: dict[str, str], *scenario: str) -> str:
    done = subprocess.run([*command, *scenario], env=env, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def snapshot_in(directory: Path) -> ProcessSnapshot:
    with Reader(directory) as reader:
        [view] = reader.poll()
        assert not view.alive and view.snapshot.finished
        return view.snapshot


def total(snapshot: ProcessSnapshot, kind: Kind, field: str) -> int:
    return sum(getattr(flow, field) for flow in snapshot.flows if flow.kind is kind)


@pytest.mark.parametrize("version", ["6", "5", "4"])
def test_order(sanitized: list[str], clean_env: dict, shm_dir: Path, version: str) -> None:
    replay(sanitized, clean_env | {"REPLAY_VERSION": version}, "order")
    snapshot = snapshot_in(shm_dir)
    # 10 × 1000 floats; then 100 elements of 1, 2, 1, 1 and 8 bytes.
    assert total(snapshot, Kind.COLLECTIVE, "enqueued_bytes") == 40_000 + 100 + 200 + 100 + 100 + 800
    assert total(snapshot, Kind.COLLECTIVE, "enqueued_ops") == 15
    assert total(snapshot, Kind.SEND, "enqueued_bytes") == 20
    assert total(snapshot, Kind.RECV, "enqueued_bytes") == 160
    [proxy] = [flow for flow in snapshot.flows if flow.kind is Kind.PROXY]
    # Ten all-reduces, four steps of 1000 bytes each way; stale sizes would add 2 GiB a step.
    assert (proxy.tx_bytes, proxy.rx_bytes, proxy.tx_steps, proxy.rx_steps) == (40_000, 40_000, 40, 40)
    assert (proxy.peer, proxy.rank, proxy.nranks, proxy.comm_id, proxy.channel_mask) == (0, 1, 2, 77, 0b11)
    assert all(not flow.is_open for flow in snapshot.flows), "finalize closes the communicator's records"


@pytest.mark.parametrize("version", ["5", "4"])
def test_null_everywhere(sanitized: list[str], clean_env: dict, shm_dir: Path, version: str) -> None:
    replay(sanitized, clean_env | {"REPLAY_VERSION": version}, "null")
    snapshot = snapshot_in(shm_dir)
    assert total(snapshot, Kind.COLLECTIVE, "enqueued_bytes") == 50, "only the call with a context counts"
    assert snapshot.tx_bytes == 0


def test_a_foreign_context_is_never_touched(sanitized: list[str], clean_env: dict, shm_dir: Path) -> None:
    replay(sanitized, clean_env, "foreign")
    snapshot = snapshot_in(shm_dir)
    assert total(snapshot, Kind.FOREIGN, "tx_bytes") == 1500, "the sockets are this process's"
    assert total(snapshot, Kind.PROXY, "tx_bytes") == 0


def test_eight_threads_and_more_peers_than_slots(sanitized: list[str], clean_env: dict, shm_dir: Path) -> None:
    replay(sanitized, clean_env, "threads")
    snapshot = snapshot_in(shm_dir)
    assert total(snapshot, Kind.COLLECTIVE, "enqueued_bytes") == 8 * 5000 * 400
    assert total(snapshot, Kind.PROXY, "tx_bytes") == total(snapshot, Kind.PROXY, "rx_bytes") == 8 * 5000 * 400
    assert total(snapshot, Kind.SEND, "enqueued_bytes") == 8 * 5000 * 4
    assert len([flow for flow in snapshot.flows if flow.kind is Kind.PROXY]) == 100, "one record per peer"


def test_threads_race_on_nothing(clean_env: dict, shm_dir: Path, tmp_path: Path) -> None:
    # gcc's thread sanitizer does not know fences; the threads of this scenario need none.
    flags = ["-fsanitize=thread"]
    plugin = build.build(tmp_path / "plugin.so", [*flags, "-Wno-tsan"])
    replay([str(compile_driver(tmp_path, flags)), str(plugin)], clean_env, "threads")
    assert total(snapshot_in(shm_dir), Kind.PROXY, "tx_bytes") == 8 * 5000 * 400


def test_reinit_and_late_events(sanitized: list[str], clean_env: dict, shm_dir: Path) -> None:
    replay(sanitized, clean_env, "reinit", "300")
    snapshot = snapshot_in(shm_dir)
    assert snapshot.enqueued_bytes == 300 * 80
    assert snapshot.tx_bytes == 300 * 47


def test_communicators_without_end_are_survived(sanitized: list[str], clean_env: dict, shm_dir: Path) -> None:
    done = subprocess.run([*sanitized, "reinit", "2000"], env=clean_env, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1 and "512 communicators" in done.stderr


def test_a_missing_directory_costs_one_line(sanitized: list[str], clean_env: dict, shm_dir: Path) -> None:
    env = clean_env | {"PACELINE_SHM_DIR": "/nonexistent/deep"}
    done = subprocess.run([*sanitized, "threads"], env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1 and "training goes on unobserved" in done.stderr


def test_switched_off(sanitized: list[str], clean_env: dict, shm_dir: Path) -> None:
    replay(sanitized, clean_env | {"PACELINE_SHIM": "0"}, "threads")
    assert list(shm_dir.iterdir()) == []


def test_more_peers_than_records(sanitized: list[str], clean_env: dict, shm_dir: Path) -> None:
    replay(sanitized, clean_env, "many-peers", "2000")
    snapshot = snapshot_in(shm_dir)
    assert snapshot.enqueued_bytes == 2000 * 4 and snapshot.tx_bytes == 2000 * 5
    assert snapshot.dropped_records > 0
    assert total(snapshot, Kind.OVERFLOW, "enqueued_bytes") > 0


def test_a_file_size_limit_is_not_fatal(plain: list[str], clean_env: dict) -> None:
    # Python ignores SIGXFSZ, so only a program in C shows that we do not run into it.
    command = ["sh", "-c", 'ulimit -f 8; exec "$@"', "sh", *plain, "threads"]
    done = subprocess.run(command, env=clean_env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0 and "file size limit" in done.stderr


def test_sigkill_at_any_instruction(plain: list[str], clean_env: dict, shm_dir: Path) -> None:
    dice = random.Random(7)
    for _ in range(25):
        child = subprocess.Popen([*plain, "until-killed"], env=clean_env)
        time.sleep(0.02 + dice.random() * 0.02)
        child.send_signal(signal.SIGKILL)
        child.wait()
        with Reader(shm_dir) as reader:
            [view] = reader.poll()
            snapshot, counter = view.snapshot, view.snapshot.iteration_counter
            assert not view.alive and not snapshot.finished
            assert snapshot.enqueued_bytes % 1000 == 0
            if counter is not None:  # None: died while storing it, and says so
                assert counter.enqueued_at_start == 1000 * counter.iteration
                assert counter.iteration == 0 or counter.last_enqueued_bytes == 1000
            assert len(reader.reap()) == 1


chains = pytest.mark.parametrize(("nccl", "other"), [("6", "6"), ("5", "5"), ("5", "4"), ("4", "4")])


def replay_chained(driver: list[str], env: dict, directory: Path, nccl: str, other: str, scenario: str) -> list[int]:
    """What the other plugin has to report."""
    chained, report = directory / "chained.so", directory / "report"
    options = ["-std=gnu11", "-O1", "-g", "-fPIC", "-shared", f"-DVERSION={other}"]
    build.run_compiler([*options, str(HERE / "chained.c"), "-o", str(chained)])
    chain = {"NCCL_SHIM_CHAIN": str(chained), "CHAINED_REPORT": str(report), "REPLAY_VERSION": nccl}
    done = subprocess.run([*driver[:2], scenario], env=env | chain, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all("512 communicators" in line for line in done.stderr.splitlines())
    return [int(number) for number in report.read_text().split()]


@chains
def test_another_plugin_behind_ours(
    sanitized: list[str], clean_env: dict, shm_dir: Path, tmp_path: Path, nccl: str, other: str
) -> None:
    report = replay_chained(sanitized, clean_env, tmp_path, nccl, other, "chained-order")
    inits, starts, stops, records, finalizes, wrong = report
    api_events = 0 if other == "4" else 20
    # Ten all-reduces: (API events,) group and collective, two proxy operations, eight steps.
    assert (inits, starts, finalizes, wrong) == (1, 10 * (2 + 2 + 8) + api_events, 1, 0)
    assert (stops, records) == (starts, 10 * 4 * (4 + 2))
    assert total(snapshot_in(shm_dir), Kind.PROXY, "tx_bytes") == 40_000, "ours counts as without a chain"


@chains
def test_another_plugin_may_change_its_mind_and_says_it_once(
    sanitized: list[str], clean_env: dict, tmp_path: Path, nccl: str, other: str
) -> None:
    inits, _, _, _, finalizes, wrong = replay_chained(sanitized, clean_env, tmp_path, nccl, other, "chained-wishes")
    assert (inits, finalizes, wrong) == (2, 2, 0)


def test_another_plugin_never_sees_a_context_that_is_not_its_own(
    sanitized: list[str], clean_env: dict, tmp_path: Path
) -> None:
    inits, _, _, _, finalizes, wrong = replay_chained(sanitized, clean_env, tmp_path, "5", "5", "chained-many")
    assert (inits, finalizes, wrong) == (512, 512, 0)


def test_a_missing_chained_plugin_is_one_line(sanitized: list[str], clean_env: dict, shm_dir: Path) -> None:
    env = clean_env | {"NCCL_SHIM_CHAIN": "/nonexistent.so"}
    done = subprocess.run([*sanitized, "order"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1 and "/nonexistent.so" in done.stderr
    assert total(snapshot_in(shm_dir), Kind.PROXY, "tx_bytes") == 40_000


def test_cost_per_event(plain: list[str], clean_env: dict) -> None:
    """100 ns, or on a machine that is slow just now what it takes to read the clock four and a half times."""

    def is_cheap(cost: dict[str, float]) -> bool:
        return cost["ns_per_collective"] <= max(100.0, 4.5 * cost["ns_per_clock"])

    # The floor of several rounds, some seconds apart: a busy machine only ever adds.
    costs = []
    for _ in range(4):
        costs.append(json.loads(replay(plain, clean_env, "timing")))
        if is_cheap(costs[-1]):
            break
        time.sleep(2)
    assert is_cheap(costs[-1]), costs
    assert min(cost["ns_per_proxy_step"] for cost in costs) <= 300


def test_only_what_is_meant_is_exported(library_path: Path) -> None:
    symbols = subprocess.run(["nm", "-D", "--defined-only", library_path], check=True, capture_output=True, text=True)
    names = {line.split()[-1] for line in symbols.stdout.splitlines()}
    profilers = {f"ncclProfiler_v{version}" for version in (4, 5, 6)}
    assert names & profilers == profilers
    assert all(name.startswith(("pls_", "plp_", "ncclProfiler_v")) for name in names)
    assert os.access(library_path, os.R_OK)


def test_c_files_use_each_other_one_way(tmp_path: Path) -> None:
    defined: dict[str, str] = {}  # symbol → file
    wanted: dict[str, set[str]] = {}
    for source in build.SOURCES:
        build.run_compiler([*build.FLAGS, "-c", str(source), "-o", str(tmp_path / "one.o")])
        listed = subprocess.run(["nm", "-P", tmp_path / "one.o"], check=True, capture_output=True, text=True)
        symbols = [line.split()[:2] for line in listed.stdout.splitlines()]
        defined |= {name: source.name for name, kind in symbols if kind.isupper() and kind != "U"}
        wanted[source.name] = {name for name, kind in symbols if kind == "U"}
    uses = {file: {defined[name] for name in names if name in defined} for file, names in wanted.items()}
    assert uses["plugin.c"], "or nothing was compared"
    graphlib.TopologicalSorter(uses).prepare()  # raises CycleError
