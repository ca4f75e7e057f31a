"""Backend, lease and guardian as one thing: begun anew after a revocation, changed while flows are attached."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from hostd.enforce.enforcer import Enforcer
from hostd.enforce.errors import CannotEnforce, EnforcementError
from hostd.enforce.htb import HtbBackend
from hostd.enforce.probe import Finding
from hostd.enforce.settings import EnforcementSettings
from hostd.kernel.sockets import DataSocket
from hostd.safety.undo_log import release
from paceline.flowcore.messages.events import Limit
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.units import UNLIMITED
from tests.hostd.conftest import FLOW, HERE, Wire

pytestmark = pytest.mark.root

SLOT_NS = 1_000_000_000  # the guardian is patient: no test is about its patience
LIMIT = Limit(FLOW, 2e7, 5e7)


@pytest.fixture
def settings(tmp_path: Path) -> EnforcementSettings:
    return EnforcementSettings(True, tmp_path / "run" / "lease.json", nic_bps=1e9, backend="htb")


@pytest.fixture
def sockets(wire: Wire) -> Iterator[tuple[DataSocket, ...]]:
    wire.sink()
    found = wire.send(1).sockets(1)
    with wire.here.enter():
        yield found


def holding(settings: EnforcementSettings, sockets: tuple[DataSocket, ...]) -> Enforcer:
    enforcer = Enforcer(settings, SLOT_NS)
    enforcer.attach(FLOW, sockets)
    enforcer.apply([LIMIT])
    return enforcer


def rate_bps(enforcer: Enforcer) -> float:
    return enforcer.read_back()[FLOW].rate_bps


def test_without_enforcing_nothing_is_touched(
    wire: Wire, settings: EnforcementSettings, sockets: tuple[DataSocket, ...]
) -> None:
    before = wire.state(sockets)
    enforcer = holding(replace(settings, enforcing=False), sockets)
    enforcer.beat()
    enforcer.refresh()
    assert enforcer.guardian_pid is None and not settings.undo_log_path.exists()
    assert wire.state(sockets) == before
    enforcer.close()


def test_what_a_predecessor_left_is_taken_back_without_enforcing_too(
    wire: Wire, settings: EnforcementSettings, sockets: tuple[DataSocket, ...]
) -> None:
    before = wire.state(sockets)
    dead = holding(settings, sockets)
    os.kill(dead.guardian_pid or 0, signal.SIGKILL)
    assert wire.state(sockets) != before
    with closing(Enforcer(replace(settings, enforcing=False), SLOT_NS)) as enforcer:
        assert wire.state(sockets) == before and not settings.undo_log_path.exists()
        assert not enforcer.errors.by_reason
    dead.close()


def test_a_device_lends_no_more_than_it_has_and_than_the_host_was_given(
    wire: Wire, settings: EnforcementSettings, sockets: tuple[DataSocket, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host's links have 1 Gbit/s; a veth's speed cannot be set."""
    for speed_bps, lent_bps in ((4e8, 4e8), (100e9, 1e9), (None, 1e9)):
        monkeypatch.setattr("hostd.enforce.selection.link_speed_bps", {"eth0": speed_bps}.get)
        with closing(holding(settings, sockets)) as enforcer:
            enforcer.apply([replace(LIMIT, ceiling_bps=UNLIMITED)])
            assert enforcer.read_back()[FLOW].ceiling_bps == pytest.approx(lent_bps, rel=0.01)


@pytest.mark.parametrize("backend", ["htb", "pacing"])
def test_limits_are_set_read_back_and_lifted(
    wire: Wire, settings: EnforcementSettings, sockets: tuple[DataSocket, ...], backend: str
) -> None:
    before = wire.state(sockets)
    enforcer = holding(replace(settings, backend=backend), sockets)
    # Sockets cannot borrow from each other: pacing has added what the guarantee leaves, up to the ceiling.
    assert rate_bps(enforcer) == pytest.approx({"htb": 2e7, "pacing": 5e7}[backend], rel=0.01)
    assert enforcer.errors.by_reason == {}
    enforcer.close()
    assert wire.state(sockets) == before
    assert not settings.undo_log_path.exists()


def test_a_revocation_begins_anew(wire: Wire, settings: EnforcementSettings, sockets: tuple[DataSocket, ...]) -> None:
    with closing(holding(settings, sockets)) as enforcer:
        guardian = enforcer.guardian_pid
        assert release(settings.undo_log_path) == {}
        enforcer.beat()
        assert enforcer.fail_opens == 1 and enforcer.guardian_pid != guardian
        assert rate_bps(enforcer) == pytest.approx(LIMIT.rate_bps, rel=0.01)


@pytest.mark.parametrize("does", ["apply", "refresh"])
def test_nothing_is_set_under_a_lease_that_was_lost(
    wire: Wire, settings: EnforcementSettings, sockets: tuple[DataSocket, ...], does: str
) -> None:
    with closing(holding(settings, sockets)) as enforcer:
        assert release(settings.undo_log_path) == {}
        if does == "apply":
            enforcer.apply([LIMIT])
        else:
            enforcer.refresh()
        assert enforcer.fail_opens == 1 and enforcer.errors.by_reason == {}
        assert rate_bps(enforcer) == pytest.approx(LIMIT.rate_bps, rel=0.01)


def test_without_a_guardian_it_observes_until_there_is_one(
    wire: Wire, settings: EnforcementSettings, sockets: tuple[DataSocket, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = wire.state(sockets)
    with closing(holding(settings, sockets)) as enforcer:
        end_guardian(enforcer)
        monkeypatch.setattr("hostd.workers.child.sys.executable", "/nonexistent/python")
        enforcer.beat()
        assert enforcer.fail_opens == 1 and enforcer.guardian_pid is None
        enforcer.refresh()
        assert enforcer.backend.name == "observe" and wire.state(sockets) == before
        monkeypatch.undo()
        enforcer.refresh()
        assert enforcer.guardian_pid is not None
        assert rate_bps(enforcer) == pytest.approx(LIMIT.rate_bps, rel=0.01)


def test_a_flow_that_cannot_be_attached_again_is_in_no_flows_way(
    wire: Wire, settings: EnforcementSettings, sockets: tuple[DataSocket, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = HtbBackend.attach

    def attach(backend: HtbBackend, flow: FlowId, sockets: Sequence[DataSocket]) -> list[EnforcementError]:
        if flow == FLOW:
            raise OSError("no room for it")
        return real(backend, flow, sockets)

    other = FLOW._replace(job="other")
    with closing(Enforcer(settings, SLOT_NS)) as enforcer:
        enforcer.attach(FLOW, ())
        enforcer.attach(other, sockets)
        enforcer.apply([LIMIT, replace(LIMIT, flow=other)])
        monkeypatch.setattr(HtbBackend, "attach", attach)
        assert release(settings.undo_log_path) == {}
        enforcer.beat()
        assert enforcer.read_back()[other].rate_bps == pytest.approx(LIMIT.rate_bps, rel=0.01)
        assert enforcer.errors.by_reason == {"no room for it": 1}


def end_guardian(enforcer: Enforcer) -> None:
    assert enforcer._lease is not None
    os.kill(enforcer._lease.guardian_pid, signal.SIGKILL)
    os.waitid(os.P_PID, enforcer._lease.guardian_pid, os.WEXITED | os.WNOWAIT)


def test_released_by_hand_it_stays_released_until_told(
    wire: Wire, settings: EnforcementSettings, sockets: tuple[DataSocket, ...]
) -> None:
    before = wire.state(sockets)
    with closing(holding(settings, sockets)) as enforcer:
        enforcer.release()
        enforcer.apply([replace(LIMIT, rate_bps=3e7)])
        enforcer.beat()
        enforcer.refresh()
        assert wire.state(sockets) == before and enforcer.released
        enforcer.reconfigure(settings)
        assert rate_bps(enforcer) == pytest.approx(3e7, rel=0.01) and not enforcer.released


def test_another_backend_takes_over_what_is_attached(
    wire: Wire, settings: EnforcementSettings, sockets: tuple[DataSocket, ...]
) -> None:
    before = wire.state(sockets)
    with closing(holding(settings, sockets)) as enforcer:
        enforcer.reconfigure(replace(settings, backend="pacing"))
        assert enforcer.backend.name == "pacing"
        assert rate_bps(enforcer) == pytest.approx(5e7, rel=0.01)
        enforcer.reconfigure(replace(settings, enforcing=False))
        assert wire.state(sockets) == before
        assert enforcer.fail_opens == 0, "no job was in danger"


def test_a_backend_that_does_not_work_leaves_the_old_one_in_place(
    wire: Wire, settings: EnforcementSettings, sockets: tuple[DataSocket, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(holding(settings, sockets)) as enforcer:
        guardian = enforcer.guardian_pid
        findings = [Finding("htb", True, ""), Finding("pacing", False, "not today", "wait until tomorrow")]
        monkeypatch.setattr("hostd.enforce.selection.probe", lambda: findings)
        with pytest.raises(CannotEnforce, match="pacing does not work here: not today; wait until tomorrow"):
            enforcer.reconfigure(replace(settings, backend="pacing"))
        assert enforcer.backend.name == "htb"
        assert enforcer.guardian_pid == guardian, "nothing was lifted for a moment"
        assert rate_bps(enforcer) == pytest.approx(LIMIT.rate_bps, rel=0.01)


def test_where_nothing_would_be_different_nothing_is_lifted(
    wire: Wire, settings: EnforcementSettings, sockets: tuple[DataSocket, ...]
) -> None:
    with closing(holding(settings, sockets)) as enforcer:
        guardian = enforcer.guardian_pid
        enforcer.reconfigure(replace(settings, backend="auto", small_tso_bursts=True))  # htb again: no use for it
        assert enforcer.guardian_pid == guardian
        enforcer.reconfigure(replace(settings, takeover=True))
        assert enforcer.guardian_pid != guardian
        assert rate_bps(enforcer) == pytest.approx(LIMIT.rate_bps, rel=0.01)


def test_auto_without_takeover_paces_what_it_had_taken_over(
    wire: Wire, settings: EnforcementSettings, sockets: tuple[DataSocket, ...]
) -> None:
    wire.here.netlink.tc("add", "pfifo", wire.here.index_of("eth0"), 0x30000, limit=1000)
    auto = replace(settings, backend="auto", takeover=True, addresses=frozenset({str(HERE.ip)}))
    with closing(holding(auto, sockets)) as enforcer:
        assert enforcer.backend.name == "htb"
        enforcer.reconfigure(replace(auto, takeover=False))
        assert enforcer.backend.name == "pacing" and enforcer.errors.by_reason == {}


def test_auto_paces_where_the_hosts_device_is_taken(
    wire: Wire, settings: EnforcementSettings, sockets: tuple[DataSocket, ...]
) -> None:
    wire.here.netlink.tc("add", "pfifo", wire.here.index_of("eth0"), 0x30000, limit=1000)
    auto = replace(settings, backend="auto", addresses=frozenset({str(HERE.ip)}))
    with closing(holding(auto, sockets)) as enforcer:
        assert enforcer.backend.name == "pacing" and enforcer.errors.by_reason == {}
        assert rate_bps(enforcer) == pytest.approx(5e7, rel=0.01)
    with closing(holding(replace(auto, takeover=True), sockets)) as enforcer:
        assert enforcer.backend.name == "htb" and enforcer.errors.by_reason == {}


def test_auto_says_so_where_nothing_works(
    wire: Wire, settings: EnforcementSettings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    findings = [Finding("htb", False, "no rights"), Finding("pacing", False, "too old"), Finding("observe", True, "")]
    monkeypatch.setattr("hostd.enforce.selection.probe", lambda: findings)
    with closing(Enforcer(replace(settings, backend="auto"), SLOT_NS)) as enforcer:
        assert enforcer.backend.name == "observe"
        [reason] = enforcer.errors.by_reason
        assert "no backend works here" in reason
    assert "htb: no rights; pacing: too old" in caplog.text


def test_a_foreign_undo_log_is_counted_and_no_hindrance(
    wire: Wire, settings: EnforcementSettings, sockets: tuple[DataSocket, ...]
) -> None:
    settings.undo_log_path.parent.mkdir()
    settings.undo_log_path.write_text("{}")
    with closing(holding(settings, sockets)) as enforcer:
        assert any("lease.bad" in reason for reason in enforcer.errors.by_reason)
        assert rate_bps(enforcer) == pytest.approx(LIMIT.rate_bps, rel=0.01)


def test_the_log_says_which_flow_of_which_job(
    wire: Wire, settings: EnforcementSettings, sockets: tuple[DataSocket, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "hostd.enforce")
    with closing(holding(settings, sockets)) as enforcer:
        elsewhere = replace(sockets[0], namespace=1)
        enforcer.attach(FLOW, (elsewhere,))  # so soon again: only the error is news
        enforcer.detach(FLOW)
    said = [(record.getMessage(), vars(record).get("job"), vars(record).get("flow")) for record in caplog.records]
    error = f"not enforced: process {elsewhere.pid} has a network of its own"
    of_the_flow = [one for one in said if one != ("enforcing with htb", None, None)]
    assert of_the_flow == [(what, FLOW.job, str(FLOW)) for what in ("flow attached", error, "flow detached")]


def test_errors_are_counted_and_bounded(
    wire: Wire, settings: EnforcementSettings, sockets: tuple[DataSocket, ...]
) -> None:
    with closing(holding(settings, sockets)) as enforcer:
        for number in range(300):
            gone = DataSocket(2**22 - 1, number, number, "10.97.0.1", "10.97.0.2", 1, sockets[0].namespace)
            enforcer.attach(FLOW._replace(job=f"job{number}"), (gone,))
        assert 0 < len(enforcer.errors.by_reason) <= 101
        enforcer.apply([LIMIT])
        assert rate_bps(enforcer) == pytest.approx(LIMIT.rate_bps, rel=0.01)
