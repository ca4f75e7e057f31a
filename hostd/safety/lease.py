"""A lease on the kernel: the undo log, the guardian that watches over it, and the heartbeat.

    undo_log = UndoLog(path)                                 # takes back what a crash left behind
    lease = Lease(undo_log, slot_ns)                         # starts the guardian
    lease.beat()                                             # before the first change, then once per slot
    lease.close()                                            # takes everything back, lets the guardian go

`beat` raises Revoked when the guardian or an operator has released the lease: close, and begin with a new one. A
guardian that was merely killed is replaced at once; the limits stay. If no other can be started there is no process
to lift the limits of a dead hostd, so none may be set: that is Revoked as well. The guardian counts as started when it
has said so: an interpreter that finds its libraries here may not find them there.
"""

import logging
import os
import select
import subprocess
from contextlib import suppress

from hostd.safety.guardian import REVOKED
from hostd.safety.undo_log import Revoked, UndoLog
from hostd.workers.child import start_child
from paceline.flowcore.model.units import NS_PER_MS

_log = logging.getLogger(__name__)

PATIENCE_SLOTS = 5
READY_WITHIN_S = 4.0  # an interpreter takes a tenth of a second; less than systemd waits for hostd's sign of life
_CLOSED = -1


class Lease:
    def __init__(self, undo_log: UndoLog, slot_ns: int) -> None:
        self.undo_log = undo_log
        self.replaced = 0  # guardians that were killed and followed by another
        self.begun = False  # the guardian has heard of hostd, and is patient no longer
        self._patience_ms = max(1, PATIENCE_SLOTS * slot_ns // NS_PER_MS)
        self._start_guardian()

    @property
    def guardian_pid(self) -> int:
        return self._guardian.pid

    def beat(self) -> None:
        """Tells the guardian that hostd lives; raises Revoked."""
        self.undo_log.check()
        self.begun = True
        try:
            os.write(self._heartbeat, b".")
        except BlockingIOError:
            pass  # it has not read 65,536 beats: stopped, but there
        except BrokenPipeError:
            self._succeed_guardian()

    def close(self) -> dict[str, str]:
        """Takes everything back and ends the guardian; returns what could not be restored, by key."""
        problems = self.undo_log.close()
        self._end_guardian()
        return problems

    def _succeed_guardian(self) -> None:
        status = self._end_guardian()
        self.undo_log.check()
        if status == REVOKED:
            raise Revoked("the guardian heard nothing from hostd and lifted every limit")
        try:
            self._start_guardian()
        except OSError as error:
            raise Revoked(f"the guardian ended and no other can be started: {error}") from error
        with suppress(BrokenPipeError):  # the next beat will know
            os.write(self._heartbeat, b".")  # there are limits
        self.replaced += 1
        _log.warning("the guardian ended (status %d), and another one watches now", status)

    def _start_guardian(self) -> None:
        theirs, ours = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(ours, False)
        arguments = [str(theirs), str(self._patience_ms), str(self.undo_log.path.absolute())]
        try:
            self._guardian = start_child("hostd.safety.guardian", arguments, (theirs,), subprocess.PIPE)
        except OSError:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self._heartbeat = ours
        if not self._is_ready():
            self._guardian.kill()
            raise OSError(f"the guardian does not start (exit status {self._end_guardian()})")

    def _is_ready(self) -> bool:
        """Waits for the guardian to say so."""
        assert self._guardian.stdout is not None
        with self._guardian.stdout as said:
            poll = select.poll()  # select takes no descriptor above 1023
            poll.register(said, select.POLLIN)
            return bool(poll.poll(READY_WITHIN_S * 1e3) and os.read(said.fileno(), 1))

    def _end_guardian(self) -> int:
        """The guardian's exit status; asked again, the same, and closed once: the number may name another file then."""
        if self._heartbeat != _CLOSED:
            os.close(self._heartbeat)
            self._heartbeat = _CLOSED
        with suppress(subprocess.TimeoutExpired):
            return self._guardian.wait(timeout=1.0)
        self._guardian.kill()  # it was stopped: nothing else ends it, and hostd has taken everything back
        return self._guardian.wait()
