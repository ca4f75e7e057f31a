"""hostd with a fault: once FILE exists, the next decision raises.

faulty_hostd.py FILE --config CONFIG …
"""

import sys
from pathlib import Path
from typing import Any

import hostd.daemon
from hostd.__main__ import main
from hostd.driver import AgentDriver


class FaultyDriver(AgentDriver):
    def take(self, *what_happened: Any) -> None:
        super().take(*what_happened)
        if Path(sys.argv[1]).exists():
            raise StopIteration("a fault in the loop")  # the one that a future takes no delivery of


if __name__ == "__main__":
    hostd.daemon.AgentDriver = FaultyDriver  # what a daemon makes
    sys.exit(main(sys.argv[2:]))
