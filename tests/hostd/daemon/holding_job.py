"""A synthetic job whose workers keep their data sockets' locks after a while: they send from pages that do not arrive.

With its lock kept a socket neither sends what it has nor takes acknowledgements: the last iteration is waited for.
"""

import time
from typing import Any

from bench.workload import synthetic
from tests.hostd.missing_page import MissingPage

ITERATIONS = 12
_exchange, _calls = synthetic.exchange, 0


def exchange(senders: Any, *arguments: Any) -> None:
    global _calls
    _calls += 1
    if _calls > ITERATIONS:
        connection = senders[0].connection
        time.sleep(1.5)
        connection.setblocking(True)
        connection.send(MissingPage().memory)
    _exchange(senders, *arguments)


def main(assignment: str) -> None:
    synthetic.exchange = exchange
    synthetic.main(assignment)
