"""hostd with a fault: once FILE exists, the next decision raises.

faulty_hostd.py FILE --config CONFIG …
"""

import sys
from pathlib import Path

from hostd.__main__ import main
from hostd.daemon import HostDaemon


class FaultyDaemon(HostDaemon):
    def _perform(self, effects) -> None:
        super()._perform(effects)
        if Path(sys.argv[1]).exists():
            raise RuntimeError("a fault in the loop")


if __name__ == "__main__":
    import hostd.__main__

    hostd.__main__.HostDaemon = FaultyDaemon  # what main() makes
    sys.exit(main(sys.argv[2:]))
