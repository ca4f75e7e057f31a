"""The undo log: on disk before the change, first record wins, newest back first, no other boot's file."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.testbed.namespace import Namespace
from hostd.enforce.pacing import TSO_RTT_LOG
from hostd.safety import guardian
from hostd.safety.guardian import REVOKED
from hostd.safety.undo import NetlinkUndo, QdiscUndo, RouteFlush, SocketUndo, SysctlUndo, Undo, as_json, from_json
from hostd.safety.undo_log import BadUndoLog, Revoked, UndoLog, _read, release

pytestmark = pytest.mark.root

HEX = st.binary(max_size=20).map(bytes.hex)
COUNT = st.integers(0, 2**31)
MESSAGES = st.lists(st.tuples(COUNT, COUNT, HEX)).map(tuple)
UNDOS = st.one_of(
    st.builds(NetlinkUndo, MESSAGES),
    st.builds(QdiscUndo, COUNT, COUNT, MESSAGES, COUNT),
    st.builds(SocketUndo, COUNT, COUNT, COUNT, COUNT, COUNT, HEX),
    st.builds(SysctlUndo, st.text(), st.text()),
    st.builds(RouteFlush),
)


@given(UNDOS)
def test_entries_come_back_from_json(undo: Undo) -> None:
    assert from_json(json.loads(json.dumps(as_json(undo)))) == undo


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "lease.json"


def test_half_a_line_is_taken_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/run was full for a moment."""
    undo_log, write = UndoLog(path), os.write
    monkeypatch.setattr("hostd.safety.undo_log.os.write", lambda file, text: write(file, text[:7]))
    with pytest.raises(OSError, match="No space left"):
        undo_log.record({"first": sysctl("1")})
    monkeypatch.undo()
    undo_log.record({"second": sysctl("2")})
    assert _read(path).keys() == {"second"}


@pytest.mark.parametrize("size_bytes", [0, 20, -1])
def test_a_file_that_was_cut_short_is_noticed_and_all_is_taken_back_from_memory(path: Path, size_bytes: int) -> None:
    """Played back by the guardian it would be no undo log, and hostd's limits would outlive hostd."""
    with Namespace("one") as one, one.enter():
        original = TSO_RTT_LOG.read_text()
        undo_log = UndoLog(path)
        undo_log.record({"it": SysctlUndo(str(TSO_RTT_LOG), original)})
        undo_log.check()
        TSO_RTT_LOG.write_text("3")
        os.truncate(path, size_bytes if size_bytes >= 0 else path.stat().st_size - 1)
        with pytest.raises(Revoked, match="that hostd wrote"):
            undo_log.check()
        with pytest.raises(Revoked):
            undo_log.record({"other": sysctl("5")})
        assert undo_log.close() == {} and TSO_RTT_LOG.read_text() == original and not path.exists()


def sysctl(text: str) -> SysctlUndo:
    return SysctlUndo(str(TSO_RTT_LOG), text)


def test_the_first_record_of_a_key_is_the_original(path: Path) -> None:
    with Namespace("one") as one, one.enter():
        undo_log = UndoLog(path)
        undo_log.record({"it": sysctl("5")})
        undo_log.record({"it": sysctl("7")})
        assert release(path) == {}
        assert TSO_RTT_LOG.read_text() == "5\n"


def test_the_newest_entry_is_taken_back_first(path: Path) -> None:
    with Namespace("one") as one, one.enter():
        undo_log = UndoLog(path)
        undo_log.record({"first": sysctl("3")})
        undo_log.record({"second": sysctl("4")})
        assert undo_log.close() == {}
        assert TSO_RTT_LOG.read_text() == "3\n"


def test_what_cannot_be_taken_back_stays_on_record(path: Path) -> None:
    undo_log = UndoLog(path)
    undo_log.record({"bad": SysctlUndo("/etc/passwd", "x"), "good": NetlinkUndo(())})
    assert undo_log.close() == {"bad": "no network sysctl: /etc/passwd"}
    assert release(path) == {"bad": "no network sysctl: /etc/passwd"}


def test_a_new_lease_keeps_what_its_predecessor_could_not_take_back(path: Path) -> None:
    stubborn = SysctlUndo("/etc/passwd", "x")
    UndoLog(path).record({"bad": stubborn, "good": NetlinkUndo(())})
    successor = UndoLog(path)
    assert set(successor.leftovers) == {"bad"}
    successor.record({"bad": NetlinkUndo(())})  # not the original
    assert set(release(path)) == {"bad"}
    assert set(successor.close()) == {"bad"}


def test_an_undo_log_that_is_gone_is_a_lease_revoked(path: Path) -> None:
    undo_log = UndoLog(path)
    path.unlink()
    with pytest.raises(Revoked):
        undo_log.record({"it": NetlinkUndo(())})
    assert not path.exists()
    assert undo_log.close() == {}


def test_an_undo_log_released_at_the_last_moment_is_not_made_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    undo_log = UndoLog(path)
    undo_log.record({"it": NetlinkUndo(())})
    path.unlink()
    monkeypatch.setattr(undo_log, "check", lambda: None)  # it was still there then
    with pytest.raises(Revoked):
        undo_log.record({"another": NetlinkUndo(())})
    undo_log.forget(["it"])
    assert not path.exists()


@pytest.mark.parametrize(
    "text",
    ["", "\n", "[]\n", "{}\n", "null\n", '{"version": 1, "boot": "b", "network_namespace": 1}\n{"entries": []}\n'],
)
def test_a_corrupt_undo_log_is_one_line(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(BadUndoLog, match="not an undo log"):
        release(path)
    assert path.read_text() == text


@pytest.mark.parametrize("line", [1, 2])
def test_a_deeply_nested_undo_log_is_a_bad_one(path: Path, line: int) -> None:
    UndoLog(path)
    lines = path.read_text().splitlines()
    lines.insert(line, '{"entries":' * 100_000)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(BadUndoLog, match="not an undo log"):
        release(path)
    assert guardian_main(path) == REVOKED
    assert list(UndoLog(path).leftovers) == ["lease.bad"]


SOCKET = as_json(SocketUndo(1, 2, 3, 4, 5, "00"))


@pytest.mark.parametrize(
    "entry",
    [
        SOCKET | {"value": "zz"},
        SOCKET | {"value": None},
        SOCKET | {"pid": "1"},
        as_json(QdiscUndo(1, 2, ())) | {"ifindex": None},
        as_json(NetlinkUndo(())) | {"messages": [[1, 2, "0"]]},
        as_json(NetlinkUndo(())) | {"messages": [[1, 2]]},
        as_json(SysctlUndo("", "")) | {"path": 5},
    ],
)
def test_an_entry_that_hostd_would_not_have_written_makes_a_bad_undo_log(path: Path, entry: dict[str, object]) -> None:
    UndoLog(path).record({"it": SysctlUndo("/etc/passwd", "x")})
    with path.open("a") as out:
        out.write(json.dumps({"entries": {"it": entry}}) + "\n")
    with pytest.raises(BadUndoLog, match="not an undo log"):
        release(path)
    assert guardian_main(path) == REVOKED
    assert list(UndoLog(path).leftovers) == ["lease.bad"]


def guardian_main(path: Path) -> int:
    """Of a pipe that was closed already."""
    reading, writing = os.pipe()
    os.close(writing)
    try:
        return guardian.main([str(reading), "1000", str(path)])
    finally:
        os.close(reading)


@pytest.mark.parametrize(
    "impossible",
    [
        SocketUndo(2**40, 0, 0, 0, 0, ""),
        NetlinkUndo(((2**20, 0, ""),)),
        QdiscUndo(2**40, 0, ()),
        SysctlUndo("\0", ""),
    ],
)
def test_what_cannot_be_performed_keeps_nothing_else_from_it(path: Path, impossible: Undo) -> None:
    with Namespace("one") as one, one.enter():
        undo_log = UndoLog(path)
        undo_log.record({"good": sysctl("5")})
        undo_log.record({"impossible": impossible})
        assert release(path).keys() == {"impossible"}
        assert TSO_RTT_LOG.read_text() == "5\n"


@pytest.mark.parametrize("content", [b"", b"nonsense\n", b"\xff\xfe\x00" * 50, b'{"version": 0}\n'])
def test_a_new_lease_begins_beside_a_broken_one(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    undo_log = UndoLog(path)
    [(aside, why)] = undo_log.leftovers.items()
    assert (path.parent / aside).read_bytes() == content and "not an undo log" in why and "\n" not in why
    assert undo_log.close() == {} and release(path) == {}


def test_what_an_older_hostd_wrote_is_undone(path: Path) -> None:
    """It called the file a lease journal. Its lines, keys and kinds of entries are read as they are."""
    with Namespace("one") as one, one.enter():
        head = {
            "version": 2,
            "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            "network_namespace": Path("/proc/thread-self/ns/net").stat().st_ino,
        }
        entries = {
            "sysctl tcp_tso_rtt_log": {"undo": "sysctl", "path": str(TSO_RTT_LOG), "text": "7"},
            "companion of socket 5: socket 6": SOCKET | {"pid": 2**22 - 1},
            "qdisc eth7": {"undo": "qdisc", "ifindex": 77, "handle": 0x0ACE0000, "tree": [], "pause_ms": 10},
            "class eth7 2": {"undo": "netlink", "messages": []},
            "routes eth7": {"undo": "routes"},
        }
        path.parent.mkdir()
        path.write_text(
            "".join(json.dumps(line) + "\n" for line in (head, {"entries": entries}, {"over": ["class eth7 2"]}))
        )
        assert release(path) == {} and not path.exists()
        assert TSO_RTT_LOG.read_text() == "7\n"


@pytest.mark.parametrize("key", ["version", "boot", "network_namespace"])
def test_an_undo_log_of_another_boot_or_namespace_is_left_alone(path: Path, key: str) -> None:
    UndoLog(path)
    head, *entries = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps(json.loads(head) | {key: "another"}), *entries, ""]))
    with pytest.raises(BadUndoLog, match=f"{key} is 'another', expected"):
        release(path)


def test_a_line_that_was_cut_off_was_never_acted_upon(path: Path) -> None:
    with Namespace("one") as one, one.enter():
        before = TSO_RTT_LOG.read_text()
        undo_log = UndoLog(path)
        undo_log.record({"first": sysctl(before)})
        whole = path.read_text()
        undo_log.record({"second": sysctl("5")})
        for length in range(len(whole), len(path.read_text())):
            path.write_text(path.read_text()[:length])
            assert release(path) == {}
            assert TSO_RTT_LOG.read_text() == before
            path.write_text(whole)


def test_a_long_life_does_not_make_a_long_file(path: Path) -> None:
    undo_log = UndoLog(path)
    undo_log.record({"stays": NetlinkUndo(())})
    for life in range(200):
        undo_log.record({f"life {life}": NetlinkUndo(())})
        undo_log.forget([f"life {life}"])
    assert len(path.read_text().splitlines()) < 50
    assert "stays" in path.read_text()


def test_other_users_cannot_read_it(path: Path) -> None:
    UndoLog(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
