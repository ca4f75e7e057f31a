"""A daemon whose wall clock is wrong: `python -m bench.chaos.skewed SECONDS switchd --config FILE`."""

import runpy
import sys
import time

_true_ns = time.time_ns


def main() -> None:
    skew_ns = round(float(sys.argv[1]) * 1e9)
    time.time_ns = lambda: _true_ns() + skew_ns  # before any module of the daemon takes it
    sys.argv[:] = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
