"""A user's own view: other users' jobs are not in it, nothing can be ordered, and a flood costs hostd little."""

import asyncio
import json
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hostd.introspect.control import ask
from hostd.introspect.users import ANSWERS_PER_S, MAX_LINE_BYTES, USERS_SOCKET, UserSocket
from tests.hostd.cluster import Cluster, cluster, fork_server, joined

__all__ = ["cluster", "fork_server"]  # fixtures

pytestmark = pytest.mark.root

NOBODY = 65534
# Everything is imported as root: another user may not read where Python is.
AS_USER = """import json, os, sys
import hostd.introspect.control, hostd.introspect.users, paceline.commands.console
from paceline.cli import main
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
print(json.dumps([main(words) for words in json.loads(sys.argv[2])]), file=sys.stderr)"""


def echo(request: dict[str, object], uid: int) -> Mapping[str, object]:
    return {"uid": uid, "heard": request["command"]}


def as_user(uid: int, *commands: tuple[str, ...]) -> "subprocess.CompletedProcess[str]":
    """These commands of `paceline`; the last line of stderr has their exit statuses."""
    command = [sys.executable, "-c", AS_USER, str(uid), json.dumps(commands)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[3])


async def test_every_user_may_connect_and_is_known(tmp_path: Path) -> None:
    users = UserSocket(tmp_path / USERS_SOCKET, echo)
    users.open()
    try:
        assert stat.S_IMODE((tmp_path / USERS_SOCKET).stat().st_mode) == 0o666
        assert await asyncio.to_thread(ask, tmp_path / USERS_SOCKET, "status") == {"uid": 0, "heard": "status"}
    finally:
        users.close()
    assert not (tmp_path / USERS_SOCKET).exists()


async def test_what_is_no_request_gets_an_error_or_nothing(tmp_path: Path) -> None:
    users = UserSocket(tmp_path / USERS_SOCKET, echo)
    users.open()
    try:
        for line in (b"garbage\n", b"[1]\n", b"[" * 4000 + b"\n"):
            reader, writer = await asyncio.open_unix_connection(tmp_path / USERS_SOCKET)
            writer.write(line)
            assert "error" in json.loads(await asyncio.wait_for(reader.read(), 10))
            writer.close()
        reader, writer = await asyncio.open_unix_connection(tmp_path / USERS_SOCKET)
        writer.write(b"x" * 2 * MAX_LINE_BYTES)
        assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()
    finally:
        users.close()


async def test_a_flood_is_answered_at_its_pace(tmp_path: Path) -> None:
    answered = 0

    def count(request: dict[str, object], uid: int) -> Mapping[str, object]:
        nonlocal answered
        answered += 1
        return {}

    users = UserSocket(tmp_path / USERS_SOCKET, count)
    users.open()
    clients: list[socket.socket] = []
    try:
        begun_s = time.monotonic()
        while time.monotonic() - begun_s < 0.6:
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            clients.append(client)
            try:
                client.connect(str(tmp_path / USERS_SOCKET))
                client.send(b'{"command": "status"}\n')
            except OSError:
                await asyncio.sleep(0.005)  # too many wait already
            await asyncio.sleep(0)
        assert 2 <= answered <= 2 + ANSWERS_PER_S * (time.monotonic() - begun_s)
    finally:
        users.close()
        for client in clients:
            client.close()


@pytest.mark.slow
def test_a_user_sees_own_jobs_and_no_others(cluster: Cluster) -> None:
    daemon = cluster.hostd(mode="advise")
    group = cluster.jobs("secret")
    cluster.run(group, lambda: "secret" in joined(daemon))
    for directory in (daemon.place, *daemon.place.parents[:1]):
        directory.chmod(0o755)

    def names(found: dict[str, Any]) -> list[str]:
        return [job["name"] for job in found["jobs"]]

    own = ask(daemon.place / USERS_SOCKET, "status")  # the job's user, here root
    assert names(own) == ["secret"] and own["user"] == 0 and own["jobs"][0]["flows"]
    assert ask(daemon.place / USERS_SOCKET, "explain", flow="secret")["job"] == "secret"
    assert ask(daemon.place / USERS_SOCKET, "explain", flow=own["jobs"][0]["flows"][0]["flow"])["path"]
    assert "only root" in ask(daemon.place / USERS_SOCKET, "release")["error"]

    where = ("--runtime-directory", str(daemon.place))
    flow = own["jobs"][0]["flows"][0]["flow"]
    seen = as_user(NOBODY, ("status", "--json", *where), ("explain", flow, *where))
    found, (refusal, statuses) = json.loads(seen.stdout), seen.stderr.splitlines()
    assert statuses == "[0, 2]" and names(found) == [] and found["user"] == NOBODY and "secret" not in seen.stdout
    assert "of yours; your jobs: none" in refusal
