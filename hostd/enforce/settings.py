"""What the enforcer is told at hostd's start, and again at a reload. hostd/config.py makes it."""

from dataclasses import dataclass
from pathlib import Path

from hostd.enforce.transport import AS_THE_KERNEL, Transport

BACKENDS = ("auto", "htb", "pacing", "throttle", "gate", "observe")


@dataclass(frozen=True, slots=True)
class EnforcementSettings:
    enforcing: bool  # False: nothing is set
    undo_log_path: Path
    nic_bps: float
    host_bps: float = 0.0  # of all its NICs; 0: it has one
    backend: str = "auto"
    addresses: frozenset[str] = frozenset()  # of this host
    takeover: bool = False  # htb: replace a qdisc that an operator or another program set
    small_tso_bursts: bool = False  # pacing: set net.ipv4.tcp_tso_rtt_log = 0
    transport: Transport = AS_THE_KERNEL
    weighing: bool = False  # sockets may be made to count for several beside cross traffic (weighing.py)
    page_directory: Path | None = None  # None: beside the undo log
