"""`paceline trace export` and `paceline web`: from a page that is served, from a switch, and wrong inputs."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from paceline.cli import build_parser, main
from paceline.commands.arguments import CommandError
from paceline.commands.watch import trace
from paceline.flowcore.model.topology import star
from paceline.service.address import HostPort
from paceline.web.board import Board, Daemon
from paceline.web.http import HttpServer
from paceline.web.pages import Pages
from tests.switchd.conftest import fabric
from tests.switchd.fabric import Fabric

__all__ = ["fabric"]  # a fixture


def run(*words: str) -> int:
    """As `main` does, which a thread cannot call: it sets a signal handler."""
    args = build_parser().parse_args(words)
    return int(args.run(args))


async def test_the_history_of_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board, host = Board(), Daemon("h0", "host", "/run/x")
    board.daemons.append(host)
    timeline = host.timeline("h0->s0", "measured", 1e9, 0.06)
    assert timeline is not None
    for slot in range(100):
        timeline.add(slot, {"bert": 5e8} if slot % 10 < 5 else {})
    server = HttpServer(Pages(board).answer)
    address = await server.open(HostPort("127.0.0.1", 0))
    try:
        where = ("--from", f"http://{address}", "--json")
        assert await asyncio.to_thread(run, "trace", "export", str(tmp_path / "trace.json"), *where) == 0
    finally:
        server.close()
    assert json.loads(capsys.readouterr().out) == {"file": str(tmp_path / "trace.json"), "links": 1, "slices": 10}
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum(event["ph"] == "X" and event["name"] == "bert" for event in events) == 10


@pytest.mark.slow
async def test_what_a_switch_says_meanwhile(
    fabric: Callable[..., Awaitable[Fabric]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topology = star(2, 1.0)
    cluster = await fabric(topology)
    where = ("--switch", cluster.address(topology.switches[0]), "--seconds", "1", "--json")
    assert await asyncio.to_thread(run, "trace", "export", str(tmp_path / "trace.json"), *where) == 0
    assert json.loads(capsys.readouterr().out)["links"] == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("trace export x.json --from ftp://x", "expected a URL"),
        ("trace export x.json --from http://127.0.0.1:1", "is `paceline web` running?"),
        ("trace export x.json --host /nowhere --seconds 1", "no hostd listens there"),
        ("trace export x.json --seconds 0", "from 1 to 3600"),
        ("web --listen nowhere", "expected HOST:PORT"),
        ("web --switch nowhere", "expected HOST:PORT"),
        ("web --ca x", "all of --ca"),
        ("web --scenario /nowhere.toml", "No such file"),
    ],
)
def test_wrong_inputs_are_one_line(
    words: str, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and said in printed.err and printed.err.count("\n") == 1


def test_a_port_that_is_taken_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["web", "--listen", f"127.0.0.1:{taken.getsockname()[1]}", "--host", "/nowhere"]) == 2
    assert "cannot serve the page" in capsys.readouterr().err


def test_another_document_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(trace, "_fetched", lambda *_: {"links": [{}]})
    with pytest.raises(CommandError, match="expected that of a `paceline web`"):
        run("trace", "export", str(tmp_path / "x.json"), "--from", "http://127.0.0.1:1")
