"""The judge, with timelines made by hand: a job of 0.3 s an iteration on h0 and h1, hostd's limits always in force."""

from dataclasses import replace

from bench.chaos.judge import CONTROLLED_WITHIN_S, UNGUARDED_S, outcomes, promises
from bench.chaos.plan import Fault
from bench.chaos.report import by_kind, kind_document
from bench.chaos.timeline import HostTimeline, Iteration, JobTimeline, KernelLook, Performed, StatusLook, Timeline

SLOT_S, USUAL_S, END_S = 0.06, 0.3, 60.0
AT_S, NEXT_S = 10.0, 30.0


def calm(*kinds: str) -> Timeline:
    """Nothing happens, in spite of these faults: the first at AT_S, the second at NEXT_S."""
    iterations = [Iteration(USUAL_S * n, USUAL_S * (n + 1)) for n in range(int(END_S / USUAL_S))]
    jobs = {name: JobTimeline(("h0", "h1"), USUAL_S, USUAL_S, list(iterations), [(0.0, END_S)], [], 1) for name in "ab"}
    hosts = {name: HostTimeline() for name in ("h0", "h1")}
    for host in hosts.values():
        host.kernel = [KernelLook(0.02 * n, True) for n in range(int(END_S / 0.02))]
        host.status = [look(0.3 * n) for n in range(int(END_S / 0.3))]
    seen = Timeline(SLOT_S, 5.0, END_S, jobs, hosts)
    for number, (kind, at_s) in enumerate(zip(kinds, (AT_S, NEXT_S), strict=False)):
        target = "a" if kind.endswith("job") else "sw" if kind == "kill-switchd" else "h0"
        seen.faults.append(Performed(Fault(number, at_s, kind, target, 0.0, 0.5), at_s, at_s))
    return seen


def look(at_s: float, enforces: bool = True, controlled: str = "ab", with_switch: bool = True) -> StatusLook:
    return StatusLook(at_s, enforces, with_switch, frozenset(controlled), frozenset())


def unpaced(seen: Timeline, begin_s: float, end_s: float, host: str = "h0") -> None:
    kernel = seen.hosts[host].kernel
    kernel[:] = [one._replace(paced=not begin_s <= one.at_s < end_s) for one in kernel]


def silent(seen: Timeline, begin_s: float, end_s: float, host: str = "h0") -> None:
    status = seen.hosts[host].status
    status[:] = [one for one in status if not begin_s <= one.at_s < end_s]


def slow(seen: Timeline, job: str, begin_s: float, took_s: float) -> None:
    """An iteration of the job that begins about then takes so long."""
    iterations = seen.jobs[job].iterations
    first = next(n for n, one in enumerate(iterations) if one.begin_s >= begin_s)
    long = Iteration(iterations[first].begin_s, iterations[first].begin_s + took_s)
    iterations[first:] = [long, *(one for one in iterations[first + 1 :] if one.begin_s >= long.end_s)]


def broken(seen: Timeline) -> list[str]:
    return [one.name for one in promises(seen) if not one.kept]


def test_all_is_kept_where_nothing_happens() -> None:
    seen = calm("bad-reload", "kill-guardian")
    assert broken(seen) == []
    for one in outcomes(seen):
        assert (one.slow_iterations, one.lost_s, one.unpaced_s, one.enforced_again_s, one.usual_pace_s) == (0,) * 5


def test_a_kill_that_is_recovered_from() -> None:
    seen = calm("kill-hostd", "mtu")
    unpaced(seen, AT_S + 0.1, AT_S + 4.0)
    silent(seen, AT_S, AT_S + 3.8)
    slow(seen, "a", AT_S - 0.2, 1.2)
    first, second = outcomes(seen)
    assert broken(seen) == []
    assert first.lifted_s is not None and 0.08 < first.lifted_s < 0.13 and 3.8 < first.unpaced_s < 4.0
    assert first.enforced_again_s is not None and 3.7 < first.enforced_again_s < 4.2
    assert first.slow_iterations == 1 and abs(first.lost_s - 0.9) < 1e-6
    assert first.usual_pace_s is not None and 0.9 < first.usual_pace_s < 1.3
    assert second.slow_iterations == 0 and second.unpaced_s == 0.0


def test_what_did_not_recover_before_the_next_fault_is_counted_and_not_left_out() -> None:
    seen = calm("kill-hostd", "bad-reload")
    unpaced(seen, AT_S + 0.1, END_S)
    silent(seen, AT_S, NEXT_S + 1.0)
    rows = by_kind(seen.faults, outcomes(seen))
    found = kind_document("kill-hostd", rows["kill-hostd"])
    assert (found["enforced_again_s"], found["enforced_again_open"]) == (None, 1)
    seen.faults[1].fault = replace(seen.faults[1].fault, target="h1")  # then there is time to see it
    [outcome, _] = outcomes(seen)
    assert outcome.enforced_again_s is not None and 20.5 < outcome.enforced_again_s < 21.5


def test_limits_that_stay() -> None:
    seen = calm("kill-hostd", "mtu")
    unpaced(seen, AT_S + 1.0, AT_S + 4.0)
    [what] = next(one for one in promises(seen) if "lifted" in one.name).broken
    assert "fault 0, kill-hostd of h0 at 10.0 s" in what and "after 1.0" in what
    never = calm("kill-hostd", "mtu")
    assert broken(never) == ["limits are lifted within 10 slots of hostd's end"]


def test_a_machine_that_stood_still_is_no_breach() -> None:
    seen = calm("kill-hostd", "mtu")
    unpaced(seen, AT_S + 1.0, AT_S + 4.0)
    slow(seen, "b", AT_S + 2.0, 1.0)
    assert len(broken(seen)) == 2
    seen.stalls_s = [(AT_S + 0.1, AT_S + 0.8), (AT_S + 2.2, AT_S + 2.6)]
    assert broken(seen) == []


def test_a_short_stop_lifts_nothing_and_need_not() -> None:
    seen = calm("stop-hostd", "mtu")
    seen.faults[0].fault = replace(seen.faults[0].fault, lasts_s=0.2)
    assert broken(seen) == []


def test_without_a_guardian_systemd_has_its_time() -> None:
    for kinds, limit_s in (("kill-both", "mtu"), UNGUARDED_S), (("kill-guardian", "kill-hostd"), UNGUARDED_S):
        seen = calm(*kinds)
        seen.faults[1].begin_s = AT_S + 0.5
        at_s = next(one.begin_s for one in seen.faults if one.fault.kind in ("kill-both", "kill-hostd"))
        seen.faults[1:] = seen.faults[1:] if kinds[1] == "kill-hostd" else []
        unpaced(seen, at_s + limit_s - 1.0, at_s + 7.0)
        assert broken(seen) == []


def test_training_that_stays_slow() -> None:
    seen = calm("kill-switchd", "mtu")
    slow(seen, "b", AT_S + 2.0, 1.2)
    [what] = next(one for one in promises(seen) if "full speed" in one.name).broken
    assert "an iteration of b took 1.20 s, 4.0 times its usual 0.30" in what
    assert broken(seen) == ["training runs at full speed within 10 slots of a daemon's end"]


def test_what_the_next_fault_made_slow_is_not_the_last_ones() -> None:
    seen = calm("kill-switchd", "link")
    slow(seen, "b", NEXT_S - 0.4, 1.2)
    assert broken(seen) == []


def test_a_job_that_was_stopped_may_be_slow_and_others_count() -> None:
    seen = calm("stop-job", "mtu")
    slow(seen, "a", AT_S, 3.0)
    assert outcomes(seen)[0].slow_iterations == 0
    slow(seen, "b", AT_S, 3.0)
    assert outcomes(seen)[0].slow_iterations == 1


def test_control_that_does_not_return() -> None:
    seen = calm("kill-hostd")
    unpaced(seen, AT_S, END_S)
    seen.hosts["h1"].status[:] = [look(0.3 * n, controlled="a" if n > 50 else "ab") for n in range(200)]
    [what] = next(one for one in promises(seen) if "controlled" in one.name).broken
    assert what == "h1: controls ['a']"
    late = calm("mtu")
    silent(late, AT_S, AT_S + CONTROLLED_WITHIN_S + 1.0)
    assert any("controlled" in name for name in broken(late))


def test_a_job_that_does_not_run_need_not_be_controlled() -> None:
    seen = calm("kill-job")
    seen.jobs["a"].running = [(0.0, AT_S), (AT_S + 2.0, END_S)]
    status = seen.hosts["h0"].status
    status[:] = [one._replace(controlled=frozenset("b")) if AT_S < one.at_s < AT_S + 2.5 else one for one in status]
    [one] = outcomes(seen)
    assert one.enforced_again_s is not None and 2.4 < one.enforced_again_s < 3.0 and broken(seen) == []


def test_what_is_noted_breaks_its_promise() -> None:
    seen = calm()
    seen.jobs["b"].errors.append((12.0, "b worker on h0 failed: Connection reset by peer"))
    seen.ended.append((13.0, "hostd on h0 ended with status 1: …"))
    seen.raised.append("switchd on sw: Traceback")
    seen.differences.append("h0: the queueing of eth0 was noqueue 0:, is htb ace:")
    seen.leaks.append("process 7 still runs")
    assert len(broken(seen)) == 5
    assert promises(seen)[0].broken == ("job b at 12.0 s: b worker on h0 failed: Connection reset by peer",)
