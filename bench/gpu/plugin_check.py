"""Two real NCCL ranks on one GPU, over sockets, observed: `scripts/nccl-check --plugin` prints one JSON object.

What is checked (exit status 1 if any fails):

    exact        bytes of every iteration from the third on equal the model's gradient bytes, on both ranks
    unchanged    iteration time with the plugin and hook within noise of without (interleaved jobs)
    followed     sockets paced from outside: the rate read from shared memory follows what was set

--backend gloo runs the same on a machine without a GPU.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from bench.gpu.outside_pacing import UNLIMITED, data_sockets, pace
from bench.testbed.accelerator import gpu
from nccl_shim import build
from nccl_shim.segment.clibrary import library_path
from nccl_shim.segment.reader import ProcessView, Reader
from paceline.commands.provenance import provenance

ROOT = Path(__file__).parents[2]
RANKS = (0, 1)
WARM_UP = 5
# One GPU serves two ranks only if they seem to be on two hosts; everything else is kept off the sockets' way.
NCCL_RECIPE = {
    "NCCL_P2P_DISABLE": "1",
    "NCCL_SHM_DISABLE": "1",
    "NCCL_NET": "Socket",
    "NCCL_SOCKET_IFNAME": "lo",
    "NCCL_IB_DISABLE": "1",
    "GLOO_SOCKET_IFNAME": "lo",
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def job(backend: str, observed: bool, directory: Path, *arguments: str) -> "Iterator[list[subprocess.Popen[str]]]":
    """The job on two ranks, as a list of processes."""
    env = os.environ | NCCL_RECIPE | {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2",
        "PYTHONPATH": str(ROOT), "PACELINE_SHM_DIR": str(directory), "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    launch = [sys.executable, "-m", "nccl_shim", "run", "--job", "nccl-check", "--"] if observed else []
    script = [sys.executable, str(ROOT / "bench/gpu/ddp_job.py"), "--backend", backend, *arguments]
    processes = [
        subprocess.Popen(
            [*launch, *script],
            env=env | {"RANK": str(rank), "LOCAL_RANK": "0", "NCCL_HOSTID": f"fakehost{rank}"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in RANKS
    ]
    try:
        yield processes
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            with process:  # waits, and closes its output
                pass


def timed_run(args: argparse.Namespace, observed: bool) -> dict[str, Any]:
    """One whole job: its iteration times and, if observed, what was read from outside meanwhile."""
    with tempfile.TemporaryDirectory() as name, Reader(Path(name)) as reader:
        counters: dict[int, dict[int, Any]] = {rank: {} for rank in RANKS}
        last: dict[int, ProcessView] = {}
        with job(args.backend, observed, Path(name), "--iterations", str(args.iterations)) as processes:
            until, running = time.monotonic() + 240, True
            while running:  # once more after the end: the last iteration counts too
                running = any(p.poll() is None for p in processes) and time.monotonic() < until
                for view in reader.poll():
                    last[view.snapshot.global_rank] = view
                    counter = view.snapshot.iteration_counter
                    if counter is not None:
                        counters[view.snapshot.global_rank][counter.iteration] = counter
                time.sleep(0.02)  # rarely enough not to be the load that is measured
            if any(p.poll() != 0 for p in processes):
                raise RuntimeError(f"the job ended with {[p.poll() for p in processes]}")
            output = processes[0].stdout
            assert output is not None
            printed = json.loads(output.read().strip().splitlines()[-1])
    return {"printed": printed, "counters": counters, "views": last}


def exactness(run: dict[str, Any], iterations: int) -> dict[str, Any]:
    """Whether each iteration from the third on had exactly the gradients' bytes."""
    expected = run["printed"]["gradient_bytes"]
    report: dict[str, Any] = {"expected_bytes": expected, "ranks": []}
    for rank in RANKS:
        counters, view = run["counters"][rank], run["views"].get(rank)
        flows, learned = (view.snapshot.flows, view.learned) if view else ((), None)
        seen = {i: m.last_enqueued_bytes for i, m in counters.items() if i >= 3}
        known = sorted(i for i in counters if i >= 2)
        between = counters[known[-1]].enqueued_at_start - counters[known[0]].enqueued_at_start if known else -1
        exact = bool(seen) and set(seen.values()) == {expected} and max(seen) == iterations
        report["ranks"].append({
            "rank": rank,
            "kinds": sorted({flow.kind.name.lower() for flow in flows}),
            "iterations_marked": max(counters, default=0),
            "iterations_seen_from_third": len(seen),
            "exact": exact and between == expected * (known[-1] - known[0]),
            "odd_sizes": {str(i): size for i, size in seen.items() if size != expected},
            "wire_bytes_per_iteration": learned.tx_bytes_per_iteration if learned else None,
            "peers": [(f.peer, f.channel_mask.bit_count()) for f in flows if f.channel_mask],
        })  # fmt: skip
    report["pass"] = all(rank["exact"] for rank in report["ranks"])
    return report


def compare(args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Interleaved jobs with and without."""
    times: dict[bool, list[float]] = {True: [], False: []}
    exact: list[dict[str, Any]] = []
    for repeat in range(args.repeats):
        for observed in (True, False) if repeat % 2 == 0 else (False, True):
            run = timed_run(args, observed)
            times[observed].append(median(run["printed"]["seconds"][WARM_UP:]) * 1e3)
            if observed:
                exact.append(exactness(run, args.iterations))
    ratio = median(times[True]) / median(times[False])
    spread = max(max(t) / min(t) - 1 for t in times.values())
    return {
        "with_ms": times[True],
        "without_ms": times[False],
        "ratio": ratio,
        "spread_between_equal_runs": spread,
        "pass": abs(ratio - 1) <= max(0.01, spread),
    }, {"runs": exact, "pass": all(report["pass"] for report in exact)}


def paced(args: argparse.Namespace) -> dict[str, Any]:
    """Sets rates on the job's sockets from outside and reads the rate that follows."""
    with (
        tempfile.TemporaryDirectory() as name,
        Reader(Path(name), estimate_waiting=True) as reader,
        job(args.backend, True, Path(name), "--iterations", "100000"),
    ):
        wait_for_iterations(reader, WARM_UP)
        one_way = args.backend == "nccl"
        pids = [view.host_pid for view in reader.poll() if view.host_pid is not None]
        sockets = {pid: data_sockets(pid, 1 << 20, one_way) for pid in pids}
        steps = []
        for rate_mbytes in (None, *args.rates, None):
            rate = UNLIMITED if rate_mbytes is None else rate_mbytes * 1_000_000
            for pid, descriptors in sockets.items():
                pace(pid, descriptors, rate)
            time.sleep(args.settle_s)
            steps.append({"set_mbytes_s": rate_mbytes, **measure_rate(reader, args.window_s)})
    errors = [abs(s["mbytes_s"] / s["set_mbytes_s"] - 1) for s in steps if s["set_mbytes_s"]]
    return {
        "sockets": [len(descriptors) for descriptors in sockets.values()],
        "steps": steps,
        "largest_error": max(errors),
        "pass": max(errors) <= 0.15 and steps[-1]["mbytes_s"] >= 0.7 * steps[0]["mbytes_s"],
    }


def wait_for_iterations(reader: Reader, count: int) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        views = reader.poll()
        counters = [view.snapshot.iteration_counter for view in views]
        if len(counters) == len(RANKS) and all(counter and counter.iteration >= count for counter in counters):
            return
        time.sleep(0.05)
    raise RuntimeError("the job did not get going within two minutes")


def measure_rate(reader: Reader, window_s: float) -> dict[str, float]:
    """Rank 0's rate from its counters, and the waiting bytes seen on the way."""
    first, started = reader.poll()[0], time.monotonic()
    waiting = []
    while time.monotonic() < started + window_s:
        time.sleep(0.02)
        waiting.append(reader.poll()[0].waiting_bytes or 0)
    last = reader.poll()[0]
    sent = last.snapshot.tx_bytes - first.snapshot.tx_bytes
    iterations = _iteration(last) - _iteration(first)
    elapsed = time.monotonic() - started
    rate = sent / elapsed / 1e6
    return {"mbytes_s": rate, "iterations": iterations, "max_waiting_mbytes": max(waiting) / 1e6}


def _iteration(view: ProcessView) -> int:
    counter = view.snapshot.iteration_counter
    return counter.iteration if counter else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog="example:\n  scripts/nccl-check --plugin --repeats 5 > docs/results/nccl_shim/nccl-check.json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    parser.add_argument("--repeats", type=int, default=5, help="interleaved pairs of jobs")
    parser.add_argument("--iterations", type=int, default=60, help="per job")
    parser.add_argument("--rates", type=int, nargs="+", default=[100, 20], help="MB/s to set from outside")
    parser.add_argument("--settle-s", type=float, default=3.0)
    parser.add_argument("--window-s", type=float, default=10.0)
    args = parser.parse_args()
    if args.iterations <= WARM_UP or args.repeats < 1:
        print(f"nccl-check --plugin: --iterations from {WARM_UP + 1}, --repeats from 1", file=sys.stderr)
        return 2
    try:
        if not library_path().is_file():
            build.build(library_path())
        timing, exact = compare(args)
        result: dict[str, Any] = {
            **provenance(),
            "backend": args.backend,
            "gpu": gpu(),
            "exact": exact,
            "unchanged": timing,
            "followed": paced(args),
        }
    except (build.NoCompiler, RuntimeError, OSError) as error:
        print(f"nccl-check --plugin: {error}", file=sys.stderr)
        return 1
    print(json.dumps(result))
    return 0 if all(result[name]["pass"] for name in ("exact", "unchanged", "followed")) else 1


if __name__ == "__main__":
    sys.exit(main())
