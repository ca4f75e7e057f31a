"""Child processes are started whole, and can be interrupted."""

import os
import signal
import subprocess
import sys

import pytest

from bench.child_process import start_child

pytestmark = pytest.mark.slow


def test_a_ctrl_c_while_a_process_is_started_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes when Python calls back after the fork, where what is raised is ignored."""
    calls = []

    def interrupting() -> None:
        if not calls:
            calls.append(os.getpid())
            os.kill(os.getpid(), signal.SIGINT)

    os.register_at_fork(before=interrupting)
    with pytest.raises(KeyboardInterrupt), start_child([sys.executable, "-S", "-c", ""]):
        pass
    assert calls


def test_the_process_itself_can_be_interrupted() -> None:
    script = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, flush=True)"
    with start_child([sys.executable, "-S", "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.communicate()[0].strip() == "True"
