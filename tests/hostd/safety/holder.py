"""A stand-in for hostd's loop: holds a job's flow at a rate and beats every slot.

    holder.py BACKEND UNDO_LOG PID RATE_BPS SLOT_MS [fail]

Prints a line per event; begins anew when its lease was revoked. With `fail` it raises after ten slots.
"""

import sys
import time
from pathlib import Path

from hostd.enforce.htb import HtbBackend
from hostd.enforce.pacing import PacingBackend
from hostd.enforce.transport import Transport
from hostd.kernel.sockets import ProcessSockets
from hostd.safety.lease import Lease
from hostd.safety.undo_log import Revoked, UndoLog
from paceline.flowcore.messages.events import Limit
from paceline.flowcore.model.patterns import FlowId, Role

FLOW = FlowId("job", "h0", "h1", Role.RING)


def main() -> None:
    name, path, pid, rate_bps, slot_ms = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), *map(float, sys.argv[4:6])
    fails = "fail" in sys.argv
    while True:
        undo_log = UndoLog(path)
        lease = Lease(undo_log, round(slot_ms * 1e6))
        if name == "htb":
            backend = HtbBackend(undo_log, lambda device: 20 * rate_bps)
        else:
            backend = PacingBackend(undo_log, 20 * rate_bps, small_tso_bursts=True, transport=Transport("reno", 40.0))
        lease.beat()
        process = ProcessSockets(pid)
        process.look()
        backend.attach(FLOW, process.sockets)
        backend.apply([Limit(FLOW, rate_bps, rate_bps)])
        print("holding", lease.guardian_pid, flush=True)
        try:
            run(lease, slot_ms / 1e3, fails)
        except Revoked as reason:
            print("revoked", reason, flush=True)
            backend.close()
            lease.close()


def run(lease: Lease, slot_s: float, fails: bool) -> None:
    replaced = lease.replaced
    for slot in range(sys.maxsize):
        time.sleep(slot_s)
        lease.beat()
        if lease.replaced != replaced:
            replaced = lease.replaced
            print("replaced", lease.guardian_pid, flush=True)
        if fails and slot == 10:
            raise RuntimeError("a bug in the loop")


main()
