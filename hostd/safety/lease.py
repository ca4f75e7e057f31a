"""A lease on the kernel: the journal, the guardian that watches over it, and the heartbeat.

    journal = Journal(path)                                  # journal.py; takes back what a crash left behind
    lease = Lease(journal, slot_ns)                          # starts the guardian
    lease.beat()                                             # once per slot, from the loop that decides
    lease.close()                                            # takes everything back, lets the guardian go

`beat` raises Revoked when the guardian (or an operator) has released us: close, and begin anew with empty books. A
guardian that was merely killed is replaced at once; the limits stay. If no other can be started there is nobody to
lift our limits, so we have no business setting any: that is Revoked as well. Started it is when it has said so: an
interpreter that finds its libraries here may not find them there.
"""

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from hostd.safety.guardian import REVOKED
from hostd.safety.undo_log import Journal, Revoked
from paceline.flowcore.model.units import NS_PER_MS

PATIENCE_SLOTS = 5
READY_WITHIN_S = 4.0  # an interpreter takes a tenth of a second; less than systemd waits for a sign of life of ours
_KEPT = ("LD_LIBRARY_PATH", "PYTHONHOME")  # of our environment: where an interpreter may find itself
_CLOSED = -1
_ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_PACKAGE_PARENT = Path(__file__).parents[2]


class Lease:
    def __init__(self, journal: Journal, slot_ns: int) -> None:
        self.journal = journal
        self.replaced = 0  # guardians that were killed and followed by another
        self._patience_ms = max(1, PATIENCE_SLOTS * slot_ns // NS_PER_MS)
        self._start_guardian()

    @property
    def guardian_pid(self) -> int:
        return self._guardian.pid

    def fileno(self) -> int:
        """Readable when the guardian has ended, for an event loop; another one after `replaced` grew."""
        return self._pidfd

    def beat(self) -> None:
        """Tells the guardian that we live; raises Revoked."""
        self.journal.check()
        try:
            os.write(self._heartbeat, b".")
        except BlockingIOError:
            pass  # it has not read 65,536 beats: stopped, but there
        except BrokenPipeError:
            self._succeed_guardian()

    def close(self) -> dict[str, str]:
        """Takes everything back and ends the guardian; returns what could not be restored, by key."""
        problems = self.journal.close()
        self._end_guardian()
        return problems

    def _succeed_guardian(self) -> None:
        status = self._end_guardian()
        self.journal.check()
        if status == REVOKED:
            raise Revoked("the guardian heard nothing from us and lifted every limit")
        try:
            self._start_guardian()
        except OSError as error:
            raise Revoked(f"the guardian ended and no other can be started: {error}") from error
        self.replaced += 1

    def _start_guardian(self) -> None:
        theirs, ours = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(ours, False)
        arguments = [str(theirs), str(self._patience_ms), str(self.journal.path.absolute())]
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        # Inherited: a signal that ends a service must not end the guardian, not even while its interpreter starts.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        try:
            self._guardian = subprocess.Popen(
                [sys.executable, "-S", "-m", "hostd.safety.guardian", *arguments],
                pass_fds=(theirs,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                env={**kept, "PYTHONPATH": str(_PACKAGE_PARENT)},
                start_new_session=True,  # a Ctrl-C meant for us must not reach it
            )
        except OSError:
            os.close(ours)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(theirs)
        self._heartbeat = ours
        self._pidfd = os.pidfd_open(self._guardian.pid)
        if not self._is_ready():
            self._guardian.kill()
            raise OSError(f"the guardian does not start (exit status {self._end_guardian()})")

    def _is_ready(self) -> bool:
        """Waits for its word."""
        assert self._guardian.stdout is not None
        with self._guardian.stdout as said:
            heard, _, _ = select.select([said], [], [], READY_WITHIN_S)
            return bool(heard and os.read(said.fileno(), 1))

    def _end_guardian(self) -> int:
        """Its exit status; asked again, the same. What we closed then may be somebody else's descriptor by now."""
        for descriptor in (self._heartbeat, self._pidfd):
            if descriptor != _CLOSED:
                os.close(descriptor)
        self._heartbeat = self._pidfd = _CLOSED
        with suppress(subprocess.TimeoutExpired):
            return self._guardian.wait(timeout=1.0)
        self._guardian.kill()  # it was stopped: nothing else ends it, and the journal is ours to take back
        return self._guardian.wait()
