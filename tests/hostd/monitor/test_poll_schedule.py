"""When a job is looked at: often where something may happen, hardly ever in between."""

import pytest

from hostd.monitor.job_tracker import LEFT_TO_TCP_NS, LONGEST_LEARNING_NS
from hostd.monitor.monitor import HOUSEKEEPING_NS, IDLE_NS, SLOW_POLL_NS
from hostd.monitor.poll_schedule import (
    COUNTERS_NS,
    FIRST_SAMPLE_NS,
    LOOK_NS,
    RECEIVING_NS,
    SAMPLE_NS,
    SAMPLED_EVERY_NS,
    SHORTEST_READ,
    PollSchedule,
    is_sampled,
)
from paceline.flowcore.demand.announced import AnnouncedDemand
from paceline.flowcore.messages.events import FLOOR_BPS, FlowDone, FlowReady, IterationEnded, Limit
from paceline.flowcore.model.patterns import FlowId
from tests.hostd.monitor.conftest import BURST_BYTES, FLOW, JOB, LINE_BPS, MS, OwnJob, Watched, joined


def limit(bps: float, flow: FlowId = FLOW) -> Limit:
    return Limit(flow, bps, bps)


def burst(job: OwnJob, watched: Watched, compute_ns: int) -> None:
    watched.now_ns += compute_ns
    job.announce()
    watched.until(FlowReady)
    job.send(BURST_BYTES)
    watched.until(FlowDone)


def end_iteration(job: OwnJob, watched: Watched) -> None:
    job.writer.end_iteration()
    watched.until(IterationEnded)


def test_an_empty_host_is_looked_at_now_and_then(watched: Watched) -> None:
    assert watched.step() == []
    assert watched.monitor.due_ns == watched.now_ns + IDLE_NS


def test_a_look_that_is_nearly_due_is_taken_where_hostd_is_awake_anyway(job: OwnJob, watched: Watched) -> None:
    joined(job, watched)
    due_ns = watched.monitor.due_ns
    assert not watched.monitor.is_due(due_ns - LOOK_NS // 2 - 1)
    watched.now_ns = due_ns - LOOK_NS // 2
    assert watched.monitor.is_due(watched.now_ns)
    watched.monitor.poll(watched.now_ns)
    assert watched.monitor.due_ns > due_ns, "and saves the wake-up for it"


@pytest.mark.parametrize(
    ("iterations", "looks_ns"), [(1, (10 * MS, LONGEST_LEARNING_NS)), (0, (50 * MS, LEFT_TO_TCP_NS))]
)
def test_a_job_that_is_learned_for_long_is_looked_at_less_often(
    job: OwnJob, watched: Watched, iterations: int, looks_ns: tuple[int, int]
) -> None:
    """Soon very seldom, if it has marked the end of no iteration."""
    for _ in range(iterations):
        job.announce()
        job.writer.end_iteration()
    for age_ns, between_ns in zip((0, 10_000 * MS, 100_000 * MS), (LOOK_NS, *looks_ns), strict=True):
        watched.now_ns = age_ns
        watched.step()
        watched.step()
        assert between_ns - LOOK_NS <= watched.monitor.jobs[JOB].due_ns - watched.now_ns <= between_ns


def test_a_computing_job_is_left_alone_until_it_can_be_through(job: OwnJob, watched: Watched) -> None:
    joined(job, watched)
    for _ in range(2):  # two phases of 400 ms on the monitor's clock
        burst(job, watched, 400 * MS)
        end_iteration(job, watched)
    looks, began_ns = 0, watched.now_ns
    while watched.now_ns < began_ns + 250 * MS:
        watched.step()
        looks += 1
    assert looks <= 250 * MS // HOUSEKEEPING_NS + 3
    watched.now_ns = began_ns + 350 * MS
    watched.step()
    assert watched.monitor.due_ns <= watched.now_ns + 50 * MS // 4, "50 ms sooner than ever it is seen 12 ms late"
    watched.now_ns = began_ns + 398 * MS
    watched.step()
    assert watched.monitor.due_ns <= watched.now_ns + LOOK_NS, "from here on it may begin any moment"


def test_a_sending_job_is_read_seldom_while_it_is_held_and_often_at_its_end(job: OwnJob, watched: Watched) -> None:
    joined(job, watched)
    job.announce()
    watched.until(FlowReady)
    watched.now_ns += 10 * MS
    watched.step()
    watched.now_ns += 10 * MS
    watched.monitor.progress(watched.now_ns, {JOB})  # nothing has moved
    assert watched.monitor.due_ns % COUNTERS_NS == 0
    watched.monitor.limited([limit(LINE_BPS), limit(LINE_BPS, FLOW._replace(job="unheard of"))], watched.now_ns)
    assert watched.monitor.due_ns <= watched.now_ns + 4 * MS + LOOK_NS, "half of what the line needs"


def test_a_lower_limit_needs_no_sooner_look(job: OwnJob, watched: Watched) -> None:
    joined(job, watched)
    job.announce()
    watched.until(FlowReady)
    watched.monitor.limited([limit(LINE_BPS)], watched.now_ns)
    soon_ns = watched.monitor.due_ns
    watched.step()
    later_ns = watched.monitor.due_ns
    watched.monitor.limited([limit(LINE_BPS / 2)], watched.now_ns)
    assert soon_ns < watched.monitor.due_ns == later_ns
    watched.monitor.limited([limit(LINE_BPS / 4)], watched.now_ns)
    watched.monitor.limited([limit(LINE_BPS / 2)], watched.now_ns)
    assert watched.monitor.due_ns <= watched.now_ns + 8 * MS + LOOK_NS, "half of what it may send by now"


@pytest.mark.parametrize(("bps", "is_read"), [(FLOOR_BPS, False), (LINE_BPS / 2, True)])
def test_of_a_job_in_pieces_without_a_share_only_the_counters_are_read(
    job: OwnJob, watched: Watched, monkeypatch: pytest.MonkeyPatch, bps: float, is_read: bool
) -> None:
    """Where its pieces end they say; where it rests is news of a job that keeps other jobs from sending."""
    monkeypatch.setattr(AnnouncedDemand, "must_see_rests", True)
    joined(job, watched)
    job.announce()
    watched.until(FlowReady)
    watched.monitor.limited([Limit(FLOW, bps, LINE_BPS)], watched.now_ns)
    tracker = watched.monitor.jobs[JOB]
    for _ in range(2):  # nothing has moved, so that half of the rest takes for ever
        watched.step()
    before_ns, measured_ns = watched.now_ns, tracker.measured_ns
    watched.step()
    assert watched.now_ns - before_ns <= 2 * LOOK_NS
    assert (tracker.measured_ns > measured_ns) is is_read
    job.send(BURST_BYTES)
    watched.until(FlowDone)
    assert watched.now_ns - before_ns <= 8 * LOOK_NS


def test_a_job_that_is_held_is_measured_when_it_can_have_sent_something(job: OwnJob, watched: Watched) -> None:
    joined(job, watched)
    job.announce()
    watched.until(FlowReady)
    watched.now_ns += MS
    watched.monitor.limited([limit(1e6)], watched.now_ns)  # 1000 bytes of a million in 8 ms
    assert watched.progress() == 0.0, "once more: it may have sent a lot before"
    job.send(BURST_BYTES // 2)  # which its limit would not have let it
    watched.now_ns += 20 * MS
    assert watched.monitor.progress(watched.now_ns, {JOB}).sent_bytes == ()
    watched.now_ns += 30 * MS
    assert watched.progress() > 0.4 * BURST_BYTES
    job.send(BURST_BYTES // 2)
    watched.monitor.limited([limit(LINE_BPS)], watched.now_ns)
    watched.until(FlowDone)


def test_a_job_that_waits_for_its_peers_is_looked_at_less_often_but_before_its_next_burst(
    job: OwnJob, watched: Watched
) -> None:
    joined(job, watched)
    for _ in range(2):
        burst(job, watched, 100 * MS)
        end_iteration(job, watched)
    burst(job, watched, 100 * MS)
    waits = []
    began_ns = watched.now_ns
    while watched.now_ns < began_ns + 500 * MS:
        before_ns = watched.now_ns
        watched.step()
        waits.append(watched.now_ns - before_ns)
    assert waits[1] <= RECEIVING_NS
    assert RECEIVING_NS < max(waits[-5:]) <= 25 * MS, "a quarter of the 100 ms that it computes"


def close_looks_end(watched: Watched) -> None:
    """Until a job that nobody waits for is looked at seldom."""
    watched.now_ns += SAMPLED_EVERY_NS + SAMPLE_NS
    watched.step()


def looks_in_half_a_second(watched: Watched) -> int:
    looks, began_ns = 0, watched.now_ns
    while watched.now_ns < began_ns + 500 * MS:
        watched.step()
        looks += 1
    return looks


SLOW_LOOKS = 500 * MS // (SLOW_POLL_NS - LOOK_NS) + 2


def test_a_host_that_only_watches_polls_slowly(job: OwnJob, watched: Watched) -> None:
    watched.monitor.slow_poll = True
    joined(job, watched)
    assert watched.monitor.jobs[JOB].is_looked_at_closely, "to begin with: it is learned"
    close_looks_end(watched)
    job.announce()
    watched.until(FlowReady)
    assert looks_in_half_a_second(watched) <= SLOW_LOOKS


def test_a_job_that_nobody_competes_with_is_polled_slowly_until_somebody_does(job: OwnJob, watched: Watched) -> None:
    alone = {JOB}
    watched.monitor.is_left_alone = lambda name: name in alone
    joined(job, watched)
    assert watched.monitor.jobs[JOB].is_looked_at_closely, "to begin with: it is learned"
    close_looks_end(watched)
    assert looks_in_half_a_second(watched) <= SLOW_LOOKS
    alone.clear()
    assert looks_in_half_a_second(watched) > 2 * SLOW_LOOKS
    alone.add(JOB)
    job.announce()
    watched.until(FlowReady)
    assert looks_in_half_a_second(watched) <= SLOW_LOOKS


def test_a_watched_job_is_looked_at_closely_at_first_and_now_and_then() -> None:
    assert is_sampled(FIRST_SAMPLE_NS - 1, is_known=True) and not is_sampled(FIRST_SAMPLE_NS, is_known=True)
    assert is_sampled(FIRST_SAMPLE_NS, is_known=False), "its iterations are long"
    later_ns = 7 * SAMPLED_EVERY_NS
    for is_known in (False, True):
        assert is_sampled(later_ns, is_known) and not is_sampled(later_ns + SAMPLE_NS, is_known)


def test_a_burst_is_read_half_way_to_its_end_at_the_speed_it_has() -> None:
    schedule, began_ns = PollSchedule(), 10 * MS
    schedule.sending(1e6, 1e6, began_ns, began_ns, None)
    now_ns = began_ns + 10 * MS  # a tenth in 10 ms: 90 ms are left
    assert schedule.sending(0.9e6, 1e6, now_ns, now_ns, None) == now_ns + 45 * MS
    let_go_ns = schedule.sending(0.9e6, 1e6, now_ns, now_ns, LINE_BPS)
    assert let_go_ns == now_ns + SHORTEST_READ * LOOK_NS, "7.2 ms at the line's rate: the shortest"
    assert schedule.sending(1e4, 1e6, now_ns, now_ns, None) == now_ns + SHORTEST_READ * LOOK_NS, "nearly through"
    late_ns = began_ns + 30 * MS  # nothing since: it stands
    assert schedule.sending(0.9e6, 1e6, late_ns, late_ns, None) == COUNTERS_NS
    later_ns = began_ns + 60 * MS
    assert schedule.sending(0.9e6, 1e6, later_ns, later_ns, None) == 2 * COUNTERS_NS, "it has just been read"


def test_a_compute_phase_is_as_long_as_the_shortest_lately() -> None:
    schedule = PollSchedule()
    for ended_ns, ready_ns in ((0, 80 * MS), (200 * MS, 240 * MS)):
        schedule.note([IterationEnded("a")], False, ended_ns)
        schedule.note([FlowReady(FLOW, 0)], False, ready_ns)
    assert schedule.not_sending(LOOK_NS, True, 300 * MS, 300 * MS) == 300 * MS + RECEIVING_NS, "all is sent"
    schedule.note([IterationEnded("a")], False, 400 * MS)
    assert schedule.not_sending(LOOK_NS, True, 300 * MS, 401 * MS) == 430 * MS, "three quarters of 40 ms"
    assert schedule.not_sending(LOOK_NS, True, 300 * MS, 440 * MS) == 440 * MS + LOOK_NS
    assert schedule.not_sending(LOOK_NS, True, 300 * MS, 460 * MS) == 465 * MS, "20 ms from either phase"
    assert schedule.not_sending(LOOK_NS, True, 300 * MS, 478 * MS) == 478 * MS + LOOK_NS, "the other phase"
    assert schedule.not_sending(LOOK_NS, True, 300 * MS, 5000 * MS) == 5020 * MS, "it pauses"
    assert PollSchedule().not_sending(LOOK_NS, False, 0, 5 * MS) == 5 * MS + LOOK_NS, "it is learned"


def test_between_bursts_of_an_iteration_a_job_computes_too() -> None:
    schedule = PollSchedule()
    schedule.note([FlowDone(FLOW)], True, 0)
    schedule.note([FlowReady(FLOW, 0)], False, 80 * MS)
    schedule.note([FlowDone(FLOW)], True, 100 * MS)
    schedule.note([], True, 110 * MS)
    assert schedule.not_sending(LOOK_NS, True, 100 * MS, 110 * MS) == 160 * MS, "three quarters of 80 ms"
