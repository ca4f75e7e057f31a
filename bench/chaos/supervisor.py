"""What systemd would do for a daemon of the run: start it again a second after its end, once ExecStopPost is through.

As in deploy/hostd.service: RestartSec=1, ExecStopPost=paceline release --all, exit status 2 means that another start
would not help. Such an end is noted, and so is every end that no fault brought about; the daemon is started all the
same, so that the run goes on.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from signal import SIGKILL

from bench.jobs.daemons import DaemonProcess
from bench.testbed.network import Testbed

RESTART_S = 1.0
NO_RESTART = 2  # RestartPreventExitStatus
_LAST_LINE_CHARS = 300


class Supervised:
    def __init__(self, daemon: DaemonProcess, testbed: Testbed, note: Callable[[str], None]) -> None:
        self.daemon, self._namespace, self._note = daemon, testbed.nodes[daemon.node], note
        self.may_fail_until_s = 0.0  # a fault keeps it from starting; systemd tries again
        self._told_to_end = False
        self._ended_s: float | None = None
        self._stop_post: subprocess.Popen[bytes] | None = None
        self.daemon.start()

    @property
    def runs(self) -> bool:
        return self.daemon.process.poll() is None

    def kill(self) -> None:
        """By a fault."""
        self._told_to_end = True
        self.daemon.signal(SIGKILL)

    def poll(self) -> None:
        if self._ended_s is None:
            status = self.daemon.process.poll()
            if status is not None:
                self._ended(status)
        elif time.monotonic() > self._ended_s + RESTART_S and self._stop_post_is_through():
            self._ended_s, self._told_to_end = None, False
            self.daemon.start()

    def stop(self) -> None:
        """For good; it must do so in order."""
        if self._ended_s is None and self.daemon.process.poll() is None:
            status = self.daemon.stop()
            if status != 0:
                self._note(f"{self._name} stopped with status {status}: {self._last_line()}")
        if self._stop_post is not None:
            self._stop_post.wait()

    def release(self) -> "subprocess.Popen[bytes]":
        """`paceline release --all` on its host."""
        place = str(self.daemon.place)
        command = [sys.executable, "-m", "paceline", "release", "--all", "--runtime-directory", place]
        with self.daemon.log_path.open("ab") as log:
            return self._namespace.popen(command, stdout=log, stderr=log)

    def _ended(self, status: int) -> None:
        self._ended_s = time.monotonic()
        if status == NO_RESTART:
            self._note(f"{self._name} gave up with status {status}, for good: {self._last_line()}")
        elif not self._told_to_end and self._ended_s > self.may_fail_until_s:
            self._note(f"{self._name} ended with status {status}: {self._last_line()}")
        if self.daemon.program == "hostd":
            self._stop_post = self.release()

    def _stop_post_is_through(self) -> bool:
        if self._stop_post is not None and self._stop_post.poll() is None:
            return False
        self._stop_post = None
        return True

    @property
    def _name(self) -> str:
        return f"{self.daemon.program} on {self.daemon.node}"

    def _last_line(self) -> str:
        return (self.daemon.log().splitlines() or ["nothing logged"])[-1][:_LAST_LINE_CHARS]
