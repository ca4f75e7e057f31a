"""Troubles by kind, for a counter: what is said of each names processes, sockets and devices, and never repeats.

The first kind with one of its words in the text counts.
"""

from collections.abc import Mapping

KINDS: Mapping[str, tuple[str, ...]] = {
    "foreign_qdisc": ("somebody set the qdisc", "our root qdisc", "not taken over"),
    "restore": ("left behind", "could not restore", " option ", "qdisc ", "gso ", "routes ", "sysctl "),
    "gone": ("has ended", "has closed", "is no socket", "is another socket"),
    "namespace": ("a network of its own",),
    "device": ("no device has",),
    "permission": ("not permitted", "ermission denied"),
    "lease": ("journal", "lease", "guardian"),
    "kernel": ("read back", "netlink", "class ", "Errno"),
}
OTHER = "other"


def kind_of(reason: str) -> str:
    return next((kind for kind, words in KINDS.items() if any(word in reason for word in words)), OTHER)
