"""hostd of a host whose root lies to the switch: what its jobs send is always most urgent, and nothing remains of it.

lying_hostd.py --config CONFIG …
"""

import sys

from hostd.__main__ import main
from paceline.flowcore.messages.reports import Report
from paceline.flowcore.model.topology import star
from paceline.sim.lies.telling import Lie, told
from paceline.wire.host_state import HostState
from paceline.wire.host_stream import HostStream

honest_send = HostStream.send


def send(stream: HostStream, message: Report | HostState) -> bool:
    for lie in (Lie.URGENT, Lie.NEARLY_DONE):
        if isinstance(message, Report):
            message = told(message, lie, star(2, 1.0))  # neither lie is about links
    return honest_send(stream, message)


if __name__ == "__main__":
    HostStream.send = send  # type: ignore[method-assign]
    sys.exit(main(sys.argv[1:]))
