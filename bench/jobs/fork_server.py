"""Where the processes of a run come from: forks of one that has imported everything.

Importing torch and what DDP needs of it takes three seconds of CPU per process, for every run again. So one process,
the nursery, imports it once, with the shim's hooks as the launcher installs them, and forks for each part of a run.
A fork enters its host's namespace, takes the environment and the files it is given, and runs the workload's `main`.
It is killed when the nursery ends, and the nursery when we end. All are in a session of their own: Ctrl-C is for us,
and we end them.
"""

import ctypes
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from bench.child_process import OWNER_VARIABLE, die_with, owned_popen
from bench.testbed.namespace import CLONE_NEWNET, Namespace
from paceline.failure import Failure

_MESSAGE_BYTES = 1 << 17
_READY = b"ready"


class NurseryError(Failure):
    """What a workload needs cannot be imported; str() is one line."""


class Child:
    """A process that is not our child: known by a descriptor."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        try:
            self._handle: int | None = os.pidfd_open(pid)
        except ProcessLookupError:
            self._handle = None

    def end(self) -> None:
        """Kills it, and returns when it is gone."""
        if self._handle is not None:
            try:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
                select.select([self._handle], [], [])
            except ProcessLookupError:
                pass
            os.close(self._handle)
            self._handle = None


class Nursery:
    """Use as a context manager; `modules` are imported beforehand."""

    def __init__(self, modules: Sequence[str], env: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "bench.jobs.fork_server", str(theirs.fileno()), *modules]
        with theirs:
            # Libraries may print while they are imported; what we print is ours.
            files = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "pass_fds": [theirs.fileno()]}
            self._process = owned_popen(command, env, start_new_session=True, **files)
        try:
            answer = self._socket.recv(_MESSAGE_BYTES)
        except BaseException:  # importing takes a while: somebody has lost patience
            self._process.kill()
            self.close()
            raise
        if answer != _READY:
            self.close()
            raise NurseryError(answer.decode() or "the process that starts the jobs' processes did not start")

    def __enter__(self) -> "Nursery":
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()
        self._process.wait()

    def bear(
        self,
        namespace: Namespace,
        module: str,
        arguments: Sequence[str],
        env: Mapping[str, str],
        files: Sequence[int],
    ) -> Child:
        """Runs `module.main(*arguments)` in a new process; `files` become its standard input, output and error."""
        message = json.dumps({"module": module, "arguments": list(arguments), "env": dict(env)}).encode()
        try:
            socket.send_fds(self._socket, [message], [namespace.fd, *files])
            answer = self._socket.recv(_MESSAGE_BYTES)
        except OSError:
            answer = b""
        if not answer:
            raise NurseryError("the process that starts the jobs' processes has ended")
        return Child(int(answer))


def _serve(line: socket.socket, modules: Sequence[str]) -> None:
    try:
        for module in modules:
            importlib.import_module(module)
    except ImportError as error:
        hint = "; real jobs need it (scripts/setup torch), synthetic ones do not" if error.name == "torch" else ""
        line.send(f"{error}{hint}".encode())
        return
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries the dead
    line.send(_READY)
    nursery_pid = os.getpid()
    while True:
        message, files, _, _ = socket.recv_fds(line, _MESSAGE_BYTES, 4)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            line.close()
            die_with(nursery_pid)()
            _live(json.loads(message), files)
        for file in files:
            os.close(file)
        line.send(str(pid).encode())


def _live(part: Mapping[str, object], files: Sequence[int]) -> NoReturn:
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        namespace, *standard = files
        if ctypes.CDLL(None).setns(namespace, CLONE_NEWNET) != 0:
            raise OSError("cannot enter the host's namespace")
        for number, file in enumerate(standard):
            os.dup2(file, number)
        for file in files:
            os.close(file)
        mark = os.environ[OWNER_VARIABLE]
        os.environ.clear()
        os.environ.update(part["env"] | {OWNER_VARIABLE: mark})
        importlib.import_module(str(part["module"])).main(*part["arguments"])
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    with suppress(BrokenPipeError):  # whom we would answer has ended
        _serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
