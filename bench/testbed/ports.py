"""The capacity of a port: HTB lets through what the cable would carry, a bfifo in front of it is the switch's buffer.

Out of a switch this is the port's own egress queue. Into a switch, from a host, it must not be on the host's side:
the host's root qdisc is hostd's to set, and a NIC's line rate is beneath it anyway. So what arrives is redirected to
an ifb device, which has an egress queue too: the line between the host and its ToR.

The buffer counts bytes, not packets (a packet may be a bundle of 44), and holds 12 ms at line rate: 1.5 MB at
1 Gbit/s, as switches with a shared buffer do; below 350 Mbit/s it holds more, 512 KB. HTB counts whole frames: of
1 Gbit/s TCP's payload is 1448/1514.

Hosts send bundles as large as the kernel likes (GSO, 64 KB). A full buffer then drops 44 packets of one flow at a
time, which a real switch does not, and which helps TCP: jobs that collide are served unequally and so drift apart
sooner. Smaller bundles would flatter a control that is compared with TCP (`paceline bench jobs
scenarios/testbed/mix-3.toml --control cubic`, with and without `--bundle-bytes 8192`). A daemon that needs smaller ones
for its own rates to be exact sets them on the host's device, and pays for them.
"""

from pyroute2.netlink.rtnl.tcmsg import plugins, sched_pfifo

from bench.testbed.namespace import Namespace

BUFFER_S = 0.012
# What a port may catch up after its timer came late; the timer of a busy machine is late by tenths of a millisecond.
BURST_S = 0.001
BUNDLE_BYTES = 65536
LEAST_BUFFER_BYTES = 8 * BUNDLE_BYTES  # of a slow link: less than a few bundles would hold no flow's window

_ROOT, _CLASS, _LEAF = 0x1_0000, 0x1_0001, 0x10_0000
_INGRESS = 0xFFFF_FFF2
_ETH_P_ALL = 3
_ANY_PACKET = ["0x0/0x0+0"]

plugins.setdefault("bfifo", sched_pfifo)  # pyroute2 lacks it; its options are those of pfifo, counted in bytes


def limit_egress(namespace: Namespace, index: int, rate_bps: float) -> None:
    """What leaves through the device leaves at this rate at most."""
    tc, bytes_per_s = namespace.netlink.tc, rate_bps / 8
    burst_bytes = max(BUNDLE_BYTES, int(bytes_per_s * BURST_S))
    tc("add", "htb", index, handle=_ROOT, default=_CLASS & 0xFFFF)
    tc("add-class", "htb", index, handle=_CLASS, parent=_ROOT, rate=int(bytes_per_s), burst=burst_bytes,
       cburst=burst_bytes, quantum=BUNDLE_BYTES)  # fmt: skip
    tc("add", "bfifo", index, handle=_LEAF, parent=_CLASS, limit=max(LEAST_BUFFER_BYTES, int(bytes_per_s * BUFFER_S)))


def limit_ingress(namespace: Namespace, index: int, line_ifname: str, rate_bps: float) -> int:
    """What arrives through the device has come over a line of this rate; returns the line's interface number."""
    netlink = namespace.netlink
    netlink.link("add", kind="ifb", ifname=line_ifname)
    line = namespace.index_of(line_ifname)
    netlink.link("set", index=line, state="up")
    limit_egress(namespace, line, rate_bps)
    netlink.tc("add", "clsact", index)
    redirect = {"kind": "mirred", "direction": "egress", "action": "redirect", "ifindex": line}
    netlink.tc("add-filter", "u32", index, parent=_INGRESS, protocol=_ETH_P_ALL, keys=_ANY_PACKET, target=0,
               action=redirect)  # fmt: skip
    return line
