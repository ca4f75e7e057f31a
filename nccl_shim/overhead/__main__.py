"""What being observed costs: `python -m nccl_shim.overhead [--repeats N] [--json]`.

Law: with and without are interleaved and repeated, because the machine drifts; the spread is reported beside
the ratio, because a ratio alone proves nothing. Two measures:

    runs     whole jobs, with the launcher and without any of it, in turns; medians of iterations
    paired   one job that alternates two iterations with and two without the hook
"""

import argparse
import json
import os
import platform
import random
import socket
import subprocess
import sys
import tempfile
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

JOB = Path(__file__).parent / "job.py"
LAUNCH = (sys.executable, "-m", "nccl_shim", "run", "--job", "overhead", "--")


def run_job(observed: bool, *arguments: str) -> dict[str, Any]:
    """Runs the job on two ranks of this machine; returns what rank 0 printed."""
    with socket.socket() as probe, tempfile.TemporaryDirectory() as directory:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
        probe.close()
        root = str(Path(__file__).parents[2])
        env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2",
               "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PACELINE_SHM_DIR": directory,
               "PYTHONPATH": root}  # fmt: skip
        command = [*(LAUNCH if observed else ()), sys.executable, str(JOB), *arguments]
        ranks = [
            subprocess.Popen(command, env=env | {"RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
            for rank in range(2)
        ]
        outputs = [rank.communicate(timeout=300)[0] for rank in ranks]
        if any(rank.returncode for rank in ranks):
            raise RuntimeError(f"the job failed with {[rank.returncode for rank in ranks]}")
    printed: dict[str, Any] = json.loads(outputs[0])
    return printed


def balanced(by_order: dict[str, list[float]]) -> float:
    """The geometric mean over both build orders, in which the advantage of the model built last cancels."""
    return prod(median(ratios) for ratios in by_order.values()) ** (1 / len(by_order))


def interval(by_order: dict[str, list[float]], draws: int = 1000) -> tuple[float, float]:
    """The middle 90 % of the bootstrapped `balanced`."""
    dice = random.Random(0)
    drawn = sorted(
        balanced({order: dice.choices(ratios, k=len(ratios)) for order, ratios in by_order.items()})
        for _ in range(draws)
    )
    return drawn[draws // 20], drawn[-draws // 20]


def measure_runs(repeats: int, arguments: list[str]) -> dict[str, Any]:
    """Whole jobs in turns: with, without, without, with, …"""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for repeat in range(repeats):
        for observed in (True, False) if repeat % 2 == 0 else (False, True):
            seconds[observed].append(median(wall for wall, _ in run_job(observed, *arguments)["seconds"]))
    ratios = [a / b for a, b in zip(seconds[True], seconds[False], strict=True)]
    return {
        "with_ms": [s * 1e3 for s in seconds[True]],
        "without_ms": [s * 1e3 for s in seconds[False]],
        "ratio": median(seconds[True]) / median(seconds[False]),
        "ratio_of_fastest": min(seconds[True]) / min(seconds[False]),
        "ratios_by_pair": ratios,
    }


def measure_paired(repeats: int, arguments: list[str]) -> dict[str, Any]:
    """Neighbouring iterations inside one job, over several jobs of either build order."""
    wall: dict[str, list[float]] = {"with": [], "without": []}
    cpu: dict[str, list[float]] = {"with": [], "without": []}
    without_ms = []
    for repeat in range(2 * repeats):
        first = ("with", "without")[repeat % 2]
        blocks = run_job(True, *arguments, "--paired", "--first", first)["blocks"]
        for a, b in zip(blocks["with"], blocks["without"], strict=True):
            # The faster of two neighbours: a machine that does something else only ever adds.
            wall[first].append(min(w for w, _ in a) / min(w for w, _ in b))
            cpu[first].append(min(c for _, c in a) / min(c for _, c in b))
            without_ms.append(min(w for w, _ in b) * 1e3)
    return {
        "pairs": len(without_ms),
        "without_ms": median(without_ms),
        "ratio": balanced(wall),
        "ratio_90_percent_interval": interval(wall),
        "cpu_ratio": balanced(cpu),
        "cpu_ratio_90_percent_interval": interval(cpu),
        "ratio_by_build_order": {order: median(ratios) for order, ratios in wall.items()},
    }


def commit() -> str | None:
    """Of the checkout this runs from; None when installed elsewhere."""
    command = ["git", f"--git-dir={Path(__file__).parents[2] / '.git'}", "rev-parse", "--short", "HEAD"]
    found = subprocess.run(command, capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else None


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m nccl_shim.overhead",
        description="Measures what the torch hook costs a gloo DDP job on this machine.",
        epilog="example:\n  python -m nccl_shim.overhead --repeats 5 --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    args = parser.parse_args()
    if min(args.repeats, args.layers, args.width) < 1 or args.iterations < 10:
        print("overhead: --repeats, --layers, --width from 1 and --iterations from 10", file=sys.stderr)
        return 2
    job = ["--layers", str(args.layers), "--width", str(args.width), "--iterations", str(args.iterations)]
    result = {
        "commit": commit(),
        "gradient_bytes": 4 * args.layers * (args.width * args.width + args.width),
        "machine": {"cpus": os.cpu_count(), "arch": platform.machine(), "kernel": platform.release()},
        "paired": measure_paired(args.repeats, job),
        "runs": measure_runs(args.repeats, job),
    }
    if args.json:
        print(json.dumps(result))
    else:
        for name in ("paired", "runs"):
            print(f"{name}: iteration time with the hook is {result[name]['ratio']:.4f} of without")
    return 0


if __name__ == "__main__":
    sys.exit(main())
