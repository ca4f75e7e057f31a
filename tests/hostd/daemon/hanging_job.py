"""A synthetic job whose workers hang in their collective after a while: bytes are announced, and none is sent."""

import time

from bench.workload import synthetic

ITERATIONS = 15
_exchange, _calls = synthetic.exchange, 0


def exchange(*arguments: object) -> None:
    global _calls
    _calls += 1
    if _calls > ITERATIONS:
        time.sleep(600)
    _exchange(*arguments)  # type: ignore[arg-type]


def main(assignment: str) -> None:
    synthetic.exchange = exchange
    synthetic.main(assignment)
