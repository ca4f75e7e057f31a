"""The control socket: answers, errors, and users that are not answered."""

import asyncio
import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hostd.introspect.control import MAX_LINE_BYTES, ControlSocket, ask

pytestmark = pytest.mark.root

NOBODY = 65534


async def opened(path: Path, **commands) -> ControlSocket:
    control = ControlSocket(path, commands or {"echo": lambda arguments: {"heard": arguments}})
    await control.open()
    return control


async def asked(path: Path, line: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(line)
    await writer.drain()
    writer.write_eof()
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return answer


async def test_an_object_a_line(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    control = await opened(path)
    lines = b'{"command": "echo", "flow": "a"}\n{"command": "echo"}\n'
    answers = [json.loads(line) for line in (await asked(path, lines)).splitlines()]
    assert answers == [{"heard": {"flow": "a"}}, {"heard": {}}]
    assert await asyncio.to_thread(ask, path, "echo", flow="b") == {"heard": {"flow": "b"}}
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    await control.close()
    assert not path.exists()


@pytest.mark.parametrize(
    "line",
    [
        *(b"\n", b"garbage\n", b"[1]\n", b'"command"\n', b"{}\n", b'{"command": "fly"}\n', b'{"command": 1}\n'),
        *(b"\xff\n", b"[" * 60_000 + b"\n"),
    ],
)
async def test_what_is_no_request_gets_an_error(tmp_path: Path, line: bytes) -> None:
    control = await opened(tmp_path / "control.sock")
    answer = json.loads(await asked(tmp_path / "control.sock", line))
    assert answer == {"error": "expected a JSON object with a command: echo"}
    await control.close()


async def test_a_line_without_end_ends_the_conversation_and_nothing_else(tmp_path: Path) -> None:
    control = await opened(tmp_path / "control.sock")
    assert await asked(tmp_path / "control.sock", b"x" * (MAX_LINE_BYTES + 2)) == b""
    assert await asked(tmp_path / "control.sock", b'{"command": "echo"}\n') == b'{"heard": {}}\n'
    await control.close()


async def test_a_command_that_fails_says_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_arguments):
        raise RuntimeError("no such luck")

    control = await opened(tmp_path / "control.sock", fail=fail)
    assert json.loads(await asked(tmp_path / "control.sock", b'{"command": "fail"}\n')) == {"error": "no such luck"}
    assert "a control request failed" in caplog.text
    await control.close()


async def test_a_predecessors_socket_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    control = await opened(path)
    assert await asked(path, b'{"command": "echo"}\n')
    await control.close()


async def test_another_user_is_refused_and_counted(tmp_path: Path) -> None:
    """Even where the file's mode would let it in."""
    path = tmp_path / "control.sock"
    control = await opened(path)
    path.chmod(0o777)
    for directory in (path.parent, *path.parent.parents[:2]):
        directory.chmod(0o755)
    program = (
        "import os, socket, sys; os.setuid(int(sys.argv[2])); s = socket.socket(socket.AF_UNIX); "
        's.connect(sys.argv[1]); s.sendall(b\'{"command": "echo"}\\n\'); print(s.makefile().readline())'
    )
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(path), str(NOBODY), stdout=subprocess.PIPE
    )
    said, _ = await asyncio.wait_for(client.communicate(), 20)
    assert json.loads(said)["error"].startswith("only root")
    assert control.refused == 1
    await control.close()


def test_no_daemon_there(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        ask(tmp_path / "control.sock", "status")
    assert os.listdir(tmp_path) == []  # noqa: PTH208
