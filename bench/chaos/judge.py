"""What each fault cost and how soon it was over, and which promises were kept. Pure: a timeline in, verdicts out.

    slow iteration    took more than SLOW times the job's median without daemons, and what the machine stood still
    lost              by how much slow iterations were longer than that median
    window            from a fault to the next one; an iteration belongs to the window in which it should have ended

A fault that makes a job slow by itself, because it stops that job, costs what the others lose. A kill of hostd lifts
its limits within FREE_SLOTS; where the guardian cannot do it (it was killed as well, or was the fault just before),
systemd's ExecStopPost does, within UNGUARDED_S.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.chaos.plan import KINDS, Target
from bench.chaos.timeline import HostTimeline, Iteration, Performed, Timeline

SLOW = 3.0
FREE_SLOTS = 10
UNGUARDED_S = 5.0
CONTROLLED_WITHIN_S = 20.0
SILENT_S = 1.5  # between two answers of a hostd that has not answered meanwhile

DAEMON_ENDS = ("kill-hostd", "stop-hostd", "kill-both", "kill-guardian", "kill-switchd", "stop-switchd", "step-clock")
LIFTS = ("kill-hostd", "stop-hostd", "kill-both")
UNGUARDED = ("kill-both", "kill-guardian", "stop-guardian", "truncate-undo-log", "delete-undo-log", "full-disk")
STOPS_JOB = ("kill-job", "restart-job", "stop-job")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one fault; None: not asked of this kind, or not before the next fault."""

    slow_iterations: int
    lost_s: float
    unpaced_s: float  # without hostd's limits, on the host that fared worst
    lifted_s: float | None  # from hostd's end to the end of its limits
    enforced_again_s: float | None
    usual_pace_s: float | None  # from the fault to the end of the last slow iteration


@dataclass(frozen=True, slots=True)
class Promise:
    name: str
    broken: tuple[str, ...] = ()

    @property
    def kept(self) -> bool:
        return not self.broken


def outcomes(seen: Timeline) -> list[Outcome]:
    return [_outcome(seen, number) for number in range(len(seen.faults))]


def promises(seen: Timeline) -> list[Promise]:
    errors = [f"job {name} at {at_s:.1f} s: {what}" for name, job in seen.jobs.items() for at_s, what in job.errors]
    ended = [f"{what} at {at_s:.1f} s" for at_s, what in seen.ended]
    return [
        Promise("no job sees an error", tuple(errors)),
        Promise(f"limits are lifted within {FREE_SLOTS} slots of hostd's end", tuple(_not_lifted(seen))),
        Promise(f"training runs at full speed within {FREE_SLOTS} slots of a daemon's end", tuple(_too_slow(seen))),
        Promise(f"every job is controlled {CONTROLLED_WITHIN_S:g} s after the faults", tuple(_not_controlled(seen))),
        Promise("no daemon ends by itself", tuple(ended)),
        Promise("no daemon logs an exception", tuple(seen.raised)),
        Promise("at the end everything is as it was found", tuple(seen.differences)),
        Promise("nothing is left behind", tuple(seen.leaks)),
    ]


# ---- One fault ----


def _outcome(seen: Timeline, number: int) -> Outcome:
    done = seen.faults[number]
    slow = list(_slow(seen, number))
    hosts = _hosts(seen, done)
    window_end_s = _window_end_s(seen, number)
    over_s = [_enforced_again_s(seen, host, done, _next_here_s(seen, number, host)) for host in hosts]
    last_slow_s = max((one.end_s for _, one in slow), default=done.begin_s)
    return Outcome(
        len(slow),
        sum(one.took_s - seen.jobs[job].tcp_iteration_s for job, one in slow),
        max(_unpaced_s(seen.hosts[host], done.begin_s, window_end_s) for host in hosts),
        _lifted_s(seen, number)[0] if done.fault.kind in LIFTS else None,
        None if None in over_s else max(one for one in over_s if one is not None),
        last_slow_s - done.begin_s if last_slow_s <= window_end_s else None,
    )


def _window_end_s(seen: Timeline, number: int) -> float:
    return seen.faults[number + 1].begin_s if number + 1 < len(seen.faults) else seen.end_s


def _next_here_s(seen: Timeline, number: int, host: str) -> float:
    """When the next fault comes that is about this host: those elsewhere need not be waited for."""
    later = (one for one in seen.faults[number + 1 :] if host in _hosts(seen, one))
    return next((one.begin_s for one in later), seen.end_s)


def _slow(seen: Timeline, number: int) -> Iterator[tuple[str, Iteration]]:
    """Of the jobs that the fault did not stop itself."""
    done = seen.faults[number]
    begin_s, end_s = done.begin_s, _window_end_s(seen, number)
    for name, job in seen.jobs.items():
        if done.fault.kind in STOPS_JOB and name == done.fault.target:
            continue
        for one in job.iterations:
            due_s = one.begin_s + job.tcp_iteration_s
            if begin_s <= due_s < end_s and _is_slow(seen, one, job.tcp_iteration_s):
                yield name, one


def _is_slow(seen: Timeline, one: Iteration, usual_s: float) -> bool:
    return one.took_s - seen.stalled_s(one.begin_s, one.end_s) > SLOW * usual_s


def _hosts(seen: Timeline, done: Performed) -> tuple[str, ...]:
    """That the fault is about."""
    match KINDS[done.fault.kind].target:
        case Target.HOST:
            return (done.fault.target,)
        case Target.JOB:
            return seen.jobs[done.fault.target].hosts
    return tuple(seen.hosts)


def _unpaced_s(host: HostTimeline, begin_s: float, end_s: float) -> float:
    looks = [look for look in host.kernel if begin_s <= look.at_s < end_s]
    following = [*looks[1:], *([looks[-1]._replace(at_s=end_s)] if looks else [])]
    return sum(after.at_s - look.at_s for look, after in zip(looks, following, strict=True) if not look.paced)


def _lifted_s(seen: Timeline, number: int) -> tuple[float | None, float | None]:
    """When the limits were seen lifted, and when they were last seen in force; None where there were none."""
    done = seen.faults[number]
    end_s = _next_here_s(seen, number, done.fault.target)
    looks = [look for look in seen.hosts[done.fault.target].kernel if look.at_s < end_s]
    before = [look for look in looks if look.at_s < done.begin_s]
    if not before or not before[-1].paced:
        return None, None
    last_s = 0.0
    for look in looks[len(before) :]:
        if not look.paced:
            return look.at_s - done.begin_s, last_s
        last_s = look.at_s - done.begin_s
    return None, last_s


def _controls(seen: Timeline, host: str, number: int) -> bool:
    """Whether the host's look at this number shows limits for every job that runs there."""
    look = seen.hosts[host].status[number]
    running = {
        name
        for name, job in seen.jobs.items()
        if host in job.hosts and any(from_s <= look.at_s <= to_s for from_s, to_s in job.running)
    }
    return look.enforces and running <= look.controlled | look.left_to_tcp


def _last_bad_s(seen: Timeline, host: str, begin_s: float, end_s: float) -> tuple[float | None, float | None]:
    """The last moment at which hostd was silent or did not control all, and the first good one after it."""
    bad_s = good_s = None
    before_s = begin_s
    for number, look in enumerate(seen.hosts[host].status):
        if not begin_s <= look.at_s < end_s:
            continue
        if not _controls(seen, host, number):
            bad_s, good_s = look.at_s, None
        elif look.at_s - before_s > SILENT_S:
            bad_s, good_s = look.at_s, look.at_s
        elif good_s is None:
            good_s = look.at_s
        before_s = look.at_s
    if end_s - before_s > SILENT_S:
        bad_s, good_s = end_s, None
    return bad_s, good_s


def _enforced_again_s(seen: Timeline, host: str, done: Performed, window_end_s: float) -> float | None:
    """0.0 where hostd never ceased to."""
    bad_s, good_s = _last_bad_s(seen, host, done.begin_s, window_end_s)
    if bad_s is None:
        return 0.0
    return good_s - done.begin_s if good_s is not None else None


# ---- Promises ----


def _not_lifted(seen: Timeline) -> Iterator[str]:
    for number, done in enumerate(seen.faults):
        fault = done.fault
        limit_s = FREE_SLOTS * seen.slot_s
        if fault.kind not in LIFTS or (fault.kind == "stop-hostd" and fault.lasts_s < limit_s):
            continue
        if _unguarded(seen, number):
            limit_s = UNGUARDED_S
        lifted_s, last_s = _lifted_s(seen, number)
        if last_s is None or last_s <= limit_s + seen.stalled_s(done.begin_s, done.begin_s + 2 * limit_s):
            continue
        found = "never" if lifted_s is None else f"after {lifted_s:.2f} s"
        yield f"{named(done)}: its limits were lifted {found}, not within {limit_s:.2f} s"


def _unguarded(seen: Timeline, number: int) -> bool:
    """Whether the guardian could not do it: it was hit as well, or has just been."""
    done = seen.faults[number]
    since_s = done.begin_s - UNGUARDED_S
    met = [one for one in seen.faults[: number + 1] if one.end_s >= since_s and one.fault.target == done.fault.target]
    return any(one.fault.kind in UNGUARDED for one in met)


def _too_slow(seen: Timeline) -> Iterator[str]:
    for number, done in enumerate(seen.faults):
        if done.fault.kind in DAEMON_ENDS:
            limit_s = UNGUARDED_S if _unguarded(seen, number) else FREE_SLOTS * seen.slot_s
            for job, one in _slow(seen, number):
                # One that was not slow yet when the next fault came may owe it to that one.
                in_time = one.begin_s + SLOW * seen.jobs[job].tcp_iteration_s <= _window_end_s(seen, number)
                if one.begin_s > done.begin_s + limit_s and in_time:
                    later_s, usual_s = one.begin_s - done.begin_s, seen.jobs[job].tcp_iteration_s
                    yield (
                        f"{named(done)}: {later_s:.1f} s later an iteration of {job} took {one.took_s:.2f} s, "
                        f"{one.took_s / usual_s:.1f} times its usual {usual_s:.2f}"
                    )


def _not_controlled(seen: Timeline) -> Iterator[str]:
    since_s = max((done.end_s for done in seen.faults), default=seen.begin_s)
    for host, timeline in seen.hosts.items():
        bad_s, good_s = _last_bad_s(seen, host, since_s, seen.end_s)
        if bad_s is not None and (good_s is None or good_s - since_s > CONTROLLED_WITHIN_S):
            last = timeline.status[-1] if timeline.status else None
            yield f"{host}: {'it does not answer' if last is None else f'controls {sorted(last.controlled)}'}"
        elif not timeline.status or not timeline.status[-1].with_switch:
            yield f"{host}: it decides without its switch"


def named(done: Performed) -> str:
    return f"fault {done.fault.number}, {done.fault.kind} of {done.fault.target} at {done.begin_s:.1f} s"
