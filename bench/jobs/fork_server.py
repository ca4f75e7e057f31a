"""Where the processes of a run come from: forks of one process that has imported everything.

Importing torch and what DDP needs of it takes three seconds of CPU per process, for every run again. So one process,
the fork server, imports it once, with the shim's hooks as the launcher installs them, and forks for each process of a
run. A fork enters its host's namespace, takes the environment and the files it is given, and runs the workload's
`main`. A fork is killed when the fork server ends, and the fork server when its parent ends. All are in a session of
their own: a Ctrl-C goes to the parent, which then ends them.
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
from typing import Any, NoReturn

from bench.child_process import OWNER_VARIABLE, die_with_parent, start_child
from bench.testbed.namespace import CLONE_NEWNET, Namespace
from paceline.failure import Failure

_MESSAGE_BYTES = 1 << 17
_READY = b"ready"


class ForkServerError(Failure):
    """What a workload needs cannot be imported; str() is one line."""


class ForkedProcess:
    """A child of the fork server, and so not of this process: known by a pidfd."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        try:
            self._pidfd: int | None = os.pidfd_open(pid)
        except ProcessLookupError:
            self._pidfd = None

    def kill(self) -> None:
        """Returns when the process is gone."""
        if self._pidfd is not None:
            try:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
                select.select([self._pidfd], [], [])
            except ProcessLookupError:
                pass
            os.close(self._pidfd)
            self._pidfd = None


class ForkServer:
    """Use as a context manager; `modules` are imported beforehand."""

    def __init__(self, modules: Sequence[str], env: Mapping[str, str]) -> None:
        self._socket, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "bench.jobs.fork_server", str(server_end.fileno()), *modules]
        with server_end:
            # Libraries may print while they are imported; the parent's standard output is for its result.
            files = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "pass_fds": [server_end.fileno()]}
            self._process = start_child(command, env, start_new_session=True, **files)
        try:
            answer = self._socket.recv(_MESSAGE_BYTES)
        except BaseException:  # importing takes a while, and may be interrupted
            self._process.kill()
            self.close()
            raise
        if answer != _READY:
            self.close()
            raise ForkServerError(answer.decode() or "the process that starts the jobs' processes did not start")

    def __enter__(self) -> "ForkServer":
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()
        self._process.wait()

    def fork(
        self,
        namespace: Namespace,
        module: str,
        arguments: Sequence[str],
        env: Mapping[str, str],
        files: Sequence[int],
    ) -> ForkedProcess:
        """Runs `module.main(*arguments)` in a new process; `files` become its standard input, output and error."""
        message = json.dumps({"module": module, "arguments": list(arguments), "env": dict(env)}).encode()
        try:
            socket.send_fds(self._socket, [message], [namespace.fd, *files])
            answer = self._socket.recv(_MESSAGE_BYTES)
        except OSError:
            answer = b""
        if not answer:
            raise ForkServerError("the process that starts the jobs' processes has ended")
        return ForkedProcess(int(answer))


# ---- In the fork server ----


def _serve(requests: socket.socket, modules: Sequence[str]) -> None:
    try:
        for module in modules:
            importlib.import_module(module)
    except ImportError as error:
        hint = "; real jobs need it (scripts/setup torch), synthetic ones do not" if error.name == "torch" else ""
        requests.send(f"{error}{hint}".encode())
        return
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the forks
    requests.send(_READY)
    server_pid = os.getpid()
    while True:
        message, files, _, _ = socket.recv_fds(requests, _MESSAGE_BYTES, 4)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            requests.close()
            die_with_parent(server_pid)()
            _run_fork(json.loads(message), files)
        for file in files:
            os.close(file)
        requests.send(str(pid).encode())


def _run_fork(request: Mapping[str, Any], files: Sequence[int]) -> NoReturn:
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
        os.environ.update(request["env"] | {OWNER_VARIABLE: mark})
        importlib.import_module(request["module"]).main(*request["arguments"])
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    with suppress(BrokenPipeError):  # the parent has ended
        _serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
