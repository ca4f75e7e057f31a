"""However many processes, sockets and devices there are, kinds of trouble are few."""

import os
from pathlib import Path

import pytest

from hostd.enforce.trouble_kinds import KINDS, OTHER, kind_of
from hostd.kernel.pidfd import Gone, take


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("process 4711 has a network of its own", "namespace"),
        ("no device has the address 10.0.0.7", "device"),
        ("eth0: somebody set the qdisc fq 8001:; takeover = true replaces it while hostd runs", "foreign_qdisc"),
        ("eth0: somebody deleted or replaced our root qdisc", "foreign_qdisc"),
        ("class 2a on eth0: No such file or directory", "kernel"),
        ("eth0: not taken over, because the hash tables of the filters of 1: could not be put back", "foreign_qdisc"),
        ("netlink: No buffer space available", "kernel"),
        ("cannot read back: [Errno 105] No buffer space available", "kernel"),
        ("left behind in lease.bad: not a lease journal", "restore"),
        ("could not restore qdisc eth0: Operation not permitted", "restore"),
        ("socket 77 option 1/12: Operation not permitted", "restore"),
        ("cannot write the journal: [Errno 28] No space left on device", "lease"),
        (str(PermissionError(1, os.strerror(1))), "permission"),
        ("something new", OTHER),
    ],
)
def test_what_backends_say(reason: str, kind: str) -> None:
    assert kind_of(reason) == kind and kind in {*KINDS, OTHER}


def test_what_has_gone_is_known_as_gone() -> None:
    with pytest.raises(Gone) as ended:
        take(2**22 - 1, 0)
    with pytest.raises(Gone) as closed:
        take(os.getpid(), 10**6)
    with Path(os.devnull).open() as file, pytest.raises(Gone) as other:
        take(os.getpid(), file.fileno())
    assert {kind_of(str(gone.value)) for gone in (ended, closed, other)} == {"gone"}
