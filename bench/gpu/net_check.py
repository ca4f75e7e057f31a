"""Two NCCL ranks on one GPU, over our net plugin: `scripts/net-check` prints one JSON object.

What is checked (exit status 1 if any fails):

    alone      all-reduces over our transport without a page take at most 1.02 of those over NCCL's own sockets
    idle       with a page that says open: the same bound
    rates      with a rate on the page, all-reduces move as many bytes per second as asked, within 3 % at the median
    free       once the page is gone within a run, its all-reduces are fast again

In a ring of two each rank sends as many bytes as the all-reduce has; NCCL_ALGO and NCCL_PROTO see to that. Runs over
the two transports alternate, without the profiler plugin.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from bench.gpu.plugin_check import NCCL_RECIPE, RANKS, ROOT, free_port
from bench.testbed.accelerator import gpu
from nccl_shim import build
from nccl_shim.page.layout import Entry, State, peer_bytes
from nccl_shim.page.writer import PageWriter
from nccl_shim.throttle import ThrottleRefused, net_library_path, throttle_environment
from paceline.commands.provenance import provenance

SLOT_NS = 60_000_000
HERE = peer_bytes("127.0.0.1")
WARM_UP = 3
GBIT = 125_000_000
MOST_ALONE, MOST_RATE_ERROR = 1.02, 0.03
RING = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"}


def all_reduces(ours: bool, size_bytes: int, count: int, page: Path | None) -> list[float]:
    """Seconds of each all-reduce of one run, on two ranks."""
    env = os.environ | NCCL_RECIPE | RING | {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2",
        "PACELINE_PAGE": str(page or "/nonexistent"),
    }  # fmt: skip
    if ours:
        env |= throttle_environment(env)
    script = [sys.executable, str(ROOT / "bench/gpu/allreduce_job.py")]
    processes = [
        subprocess.Popen(
            [*script, "--bytes", str(size_bytes), "--count", str(count)],
            env=env | {"RANK": str(rank), "LOCAL_RANK": "0", "NCCL_HOSTID": f"fakehost{rank}"},
            stdout=subprocess.PIPE, text=True,
        )
        for rank in RANKS
    ]  # fmt: skip
    try:
        outputs = [process.communicate(timeout=180)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            with process:
                pass
    if any(process.returncode for process in processes):
        raise RuntimeError(f"the ranks ended with {[process.returncode for process in processes]}")
    seconds: list[float] = json.loads(outputs[0].strip().splitlines()[-1])["seconds"]
    return seconds[WARM_UP:]


@contextmanager
def page(*entries: Entry, lasts_s: float = 1e9) -> Iterator[Path]:
    """A page with a heartbeat, for so many seconds."""
    done = threading.Event()
    with tempfile.TemporaryDirectory() as name, PageWriter(Path(name), 1, 1, SLOT_NS) as writer:
        writer.write(entries)
        until_s = time.monotonic() + lasts_s

        def beat() -> None:
            while not done.wait(SLOT_NS / 3e9) and time.monotonic() < until_s:
                writer.beat(time.monotonic_ns())

        beating = threading.Thread(target=beat)
        beating.start()
        try:
            yield writer.path
        finally:
            done.set()
            beating.join()


def alone(args: argparse.Namespace) -> dict[str, Any]:
    """NCCL's own sockets, our transport without a page, and with a page that says open, in turns."""
    times: dict[str, list[float]] = {"sockets": [], "ours": [], "idle_page": []}
    for _ in range(args.repeats):
        times["sockets"].append(median(all_reduces(False, args.bytes, args.count, None)))
        times["ours"].append(median(all_reduces(True, args.bytes, args.count, None)))
        with page() as open_page:
            times["idle_page"].append(median(all_reduces(True, args.bytes, args.count, open_page)))
    ratios = {name: median(times[name]) / median(times["sockets"]) for name in ("ours", "idle_page")}
    return {
        "ms": {name: [one * 1e3 for one in all_times] for name, all_times in times.items()},
        "sockets_gbits": args.bytes * 8 / 1e9 / median(times["sockets"]),
        "ratio_ours": ratios["ours"],
        "ratio_idle_page": ratios["idle_page"],
        "spread_between_equal_runs": max(max(one) / min(one) - 1 for one in times.values()),
        "pass": max(ratios.values()) <= MOST_ALONE,
    }


def rates(args: argparse.Namespace) -> dict[str, Any]:
    steps = []
    for gbits in args.rates:
        asked = gbits * GBIT
        size_bytes = max(4 << 20, int(asked * 0.2) // 4096 * 4096)  # a fifth of a second each
        with page(Entry(HERE, State.RATE, 0, asked)) as paced:
            seconds = all_reduces(True, size_bytes, WARM_UP + 26, paced)
        found = [size_bytes / one / asked for one in seconds]
        whole = size_bytes * len(seconds) / sum(seconds) / asked
        steps.append({"asked_gbits": gbits, "ratio_median": median(found), "ratio_whole": whole,
                      "ratio_least": min(found), "ratio_most": max(found)})  # fmt: skip
    errors = [abs(step["ratio_median"] - 1) for step in steps]
    return {"steps": steps, "largest_error": max(errors), "pass": max(errors) <= MOST_RATE_ERROR}


def free_again(args: argparse.Namespace) -> dict[str, Any]:
    """At 0.2 Gbit/s, a third of a second each, for the job's first part; then the heartbeat ends."""
    with page(Entry(HERE, State.RATE, 0, 0.2 * GBIT), lasts_s=args.heartbeat_s) as paced:
        seconds = all_reduces(True, 8 << 20, 200, paced)
    slow, fast = max(seconds), median(seconds[-len(seconds) // 4 :])
    return {"slowest_ms": slow * 1e3, "last_ms": fast * 1e3, "pass": fast < slow / 5}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="net-check",
        description=__doc__.splitlines()[0],
        epilog="example: scripts/net-check --repeats 5 > docs/results/nccl_shim/net-check.json",
    )
    parser.add_argument("--repeats", type=int, default=5, help="runs of each kind, in turns (default: %(default)s)")
    parser.add_argument("--bytes", type=int, default=64 << 20, help="of an all-reduce (default: %(default)s)")
    parser.add_argument("--count", type=int, default=60, help="all-reduces of a run (default: %(default)s)")
    parser.add_argument("--rates", type=float, nargs="+", default=[1, 5, 10], metavar="GBIT", help="(default: 1 5 10)")
    parser.add_argument("--heartbeat-s", type=float, default=30.0, help="after which it ends (default: %(default)s)")
    args = parser.parse_args()
    if args.repeats < 1 or args.count < WARM_UP + 8 or args.bytes < 4096:
        print(f"net-check: --repeats from 1, --count from {WARM_UP + 8}, --bytes from 4096", file=sys.stderr)
        return 2
    try:
        if gpu() is None:
            raise RuntimeError("torch finds no GPU with NCCL here")
        if not net_library_path(os.environ).is_file():
            build.build_net(net_library_path(os.environ))
        result: dict[str, Any] = {**provenance(), "gpu": gpu()}
        for name, check in (("alone", alone), ("rates", rates), ("free", free_again)):
            result[name] = check(args)
            print(f"{name}: {json.dumps(result[name])}", file=sys.stderr)
    except (build.NoCompiler, RuntimeError, ThrottleRefused, OSError, subprocess.TimeoutExpired) as error:
        print(f"net-check: {error}", file=sys.stderr)
        return 2
    print(json.dumps(result))
    return 0 if all(result[name]["pass"] for name in ("alone", "rates", "free")) else 1


if __name__ == "__main__":
    sys.exit(main())
