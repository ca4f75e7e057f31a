"""Whether every link of the chain holds, by what was seen of a run.

plugin     every process of both jobs has counters
sizes      an iteration from the third on announces the job's gradients, to the byte
marks      as many iterations are counted as the job says it did, and after the end of one the next burst is
           announced when computing is over, not at once
hostd      every host's hostd knows both jobs, their sockets and the bytes of their iterations, and paces both
switchd    every hostd decides together with its switch
htb        the kernel has a rate for each flow; while jobs of a host send, one that sends has most of the link
training   two identical jobs take turns: little is lost against one alone
restart    hostd killed: iterations go on, no one stands still, and the next hostd has both jobs again
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, median
from typing import Any

FIRST_COUNTED = 3  # DDP's first two iterations carry extra collectives
LEAST_GAP_SHARE = 0.5  # of the computing time, between an iteration's end and the next announcement
SIZE_TOLERANCE = 0.1  # of what hostd has learned: headers and retransmissions are on the wire, too
MOST_SLOWDOWN = {"nccl": 1.10, "gloo": 1.30}  # gloo's is for busy machines with two cores
STOOD_STILL = 3.0  # times the median of the iterations
FOUND_AGAIN_S = 15.0  # from hostd's first answer: jobs try to register again every eight seconds, and are learned
LARGER_SHARE = 2.0  # of the sending job's rate, against the other's


@dataclass(slots=True)
class Counted:
    """What one process's counters said, looked at every few milliseconds."""

    sizes: dict[int, int] = field(default_factory=dict)  # announced bytes, by iteration
    gaps_s: dict[int, float] = field(default_factory=dict)  # from an iteration's end to the next announcement
    iterations: int = 0
    registered: bool = False  # with hostd; otherwise they are in a file


@dataclass(slots=True)
class Observations:
    backend: str
    jobs: tuple[str, ...]
    hosts: tuple[str, ...]
    gradient_bytes: int
    compute_s: float
    alone_s: float | None  # an iteration of one job by itself; None: not measured
    counted: Mapping[tuple[str, int], Counted]  # by job and rank
    statuses: Mapping[str, Sequence[Mapping[str, Any]]]  # of hostd, by host, once the jobs were learned
    ended: Mapping[str, Sequence[int]]  # when iterations ended, by job, in ns
    iterations: Mapping[tuple[str, int], int]  # that processes say they did, by job and rank
    killed_ns: int | None = None  # None: hostd was not killed
    found_again_s: float | None = None
    logs: Mapping[str, Sequence[str]] = field(default_factory=dict)  # the daemons' last lines, by node


@dataclass(frozen=True, slots=True)
class Verdict:
    link: str
    claim: str
    found: str
    passed: bool


def judge(seen: Observations) -> list[Verdict]:
    return [verdict for part in (_counting, _hostd, _kernel, _training, _restart) for verdict in part(seen)]


def _counting(seen: Observations) -> Iterator[Verdict]:
    wanted = [(job, rank) for job in seen.jobs for rank in range(len(seen.hosts))]
    counting = [process for process in wanted if process in seen.counted]
    yield Verdict("plugin", "every process has counters", f"{len(counting)} of {len(wanted)}", counting == wanted)
    sizes = [size for one in seen.counted.values() for number, size in one.sizes.items() if number >= FIRST_COUNTED]
    exact = sum(size == seen.gradient_bytes for size in sizes)
    claim = f"iterations announce {seen.gradient_bytes} bytes"
    yield Verdict("sizes", claim, f"{exact} of {len(sizes)}", bool(sizes) and exact == len(sizes))
    apart = [abs(one.iterations - seen.iterations.get(process, 0)) for process, one in seen.counted.items()]
    missing = f"{max(apart, default=0)} more or less" if apart else "none counted"
    yield Verdict("marks", "every iteration is counted once", missing, bool(apart) and max(apart) <= 1)
    gaps_s = [gap_s for one in seen.counted.values() for gap_s in one.gaps_s.values()]
    typical_s = median(gaps_s) if gaps_s else 0.0
    least_s = LEAST_GAP_SHARE * seen.compute_s
    claim = f"an announcement comes {least_s:.3f} s or more after the last iteration's end"
    yield Verdict("marks", claim, f"{typical_s:.3f} s", typical_s >= least_s)


def _jobs(seen: Observations) -> Iterator[tuple[str, str, Mapping[str, Any] | None]]:
    """The last word of every host on every job."""
    for host in seen.hosts:
        known = seen.statuses[host][-1]["jobs"] if seen.statuses.get(host) else []
        for name in seen.jobs:
            yield host, name, next((job for job in known if job["name"] == name), None)


def _hostd(seen: Observations) -> Iterator[Verdict]:
    registered = sum(one.registered for one in seen.counted.values())
    found = f"{registered} of {len(seen.counted)}"
    yield Verdict("hostd", "counters were handed to hostd", found, registered == len(seen.counted) > 0)
    words = list(_jobs(seen))
    blind = [_why_not(host, name, job) for host, name, job in words if job is None or not job["controlled"]]
    yield Verdict("hostd", "every hostd paces both jobs", "; ".join(blind) or "all", not blind)
    flows = [flow for _, _, job in words if job is not None for flow in job["flows"]]
    bare = sum(not flow["sockets"] for flow in flows)
    found = f"{len(flows)} flows, {bare} without a socket"
    yield Verdict("hostd", "each has sockets of its flow", found, len(flows) >= len(words) and not bare)
    sizes = [flow["size_bytes"] or 0.0 for flow in flows]
    wrong = [size for size in sizes if abs(size / seen.gradient_bytes - 1) > SIZE_TOLERANCE]
    claim = f"each knows the {seen.gradient_bytes / 1e6:.1f} MB of an iteration"
    found = f"{', '.join(f'{size / 1e6:.1f}' for size in wrong or sizes) or 'no'} MB"
    yield Verdict("hostd", claim, found, bool(sizes) and not wrong)
    switches = [status["switch"] for statuses in seen.statuses.values() for status in statuses]
    alone = sum(not switch["connected"] or switch["deciding_alone"] for switch in switches)
    reasons = sorted({str(switch["why"]) for switch in switches if switch.get("why")})
    found = f"{alone} of {len(switches)} times not{' (' if reasons else ''}{'; '.join(reasons)}{')' if reasons else ''}"
    yield Verdict("switchd", "hosts decide with their switch", found, bool(switches) and 10 * alone <= len(switches))


def _why_not(host: str, name: str, job: Mapping[str, Any] | None) -> str:
    reasons = [one["why"] for one in job.get("not_paced", ())] if job is not None else ["it is not known"]
    return f"{name} on {host}: {', '.join(reasons) or 'no reason'}"


def _kernel(seen: Observations) -> Iterator[Verdict]:
    limited, sending, in_turn = set(), 0, 0
    for host, statuses in seen.statuses.items():
        for status in statuses:
            flows = [(job["name"], flow) for job in status["jobs"] for flow in job["flows"]]
            limited |= {(host, name) for name, flow in flows if flow["kernel_bps"] is not None}
            rates = sorted((one["kernel_bps"], one["live"]) for _, one in flows if one["kernel_bps"] is not None)
            if len(rates) > 1 and any(live for _, live in rates):
                sending += 1
                in_turn += rates[-1][1] and rates[-1][0] >= LARGER_SHARE * rates[-2][0]
    wanted = len(seen.hosts) * len(seen.jobs)
    yield Verdict("htb", "the kernel has a rate for each flow", f"{len(limited)} of {wanted}", len(limited) == wanted)
    found = f"{in_turn} of {sending} times"
    yield Verdict("htb", "one that sends has most of the link", found, 0 < sending <= 2 * in_turn)


def _training(seen: Observations) -> Iterator[Verdict]:
    if seen.alone_s is None:
        return
    slowdowns = [fmean(times) / seen.alone_s for job in seen.jobs if (times := _steady_s(seen, job))]
    limit, slowdown = MOST_SLOWDOWN[seen.backend], fmean(slowdowns) if slowdowns else float("inf")
    yield Verdict("training", f"mean slowdown at most {limit:g}", f"{slowdown:.3f}", slowdown <= limit)


def _steady_s(seen: Observations, job: str) -> list[float]:
    """The second half of the iterations before hostd was killed: turns are learned by then."""
    ends = [end for end in seen.ended[job] if seen.killed_ns is None or end <= seen.killed_ns]
    half = ends[len(ends) // 2 :]
    return [(later - earlier) / 1e9 for earlier, later in pairwise(half)]


def _restart(seen: Observations) -> Iterator[Verdict]:
    if seen.killed_ns is None:
        return
    for job in seen.jobs:
        ends, usual_s = seen.ended[job], median(_steady_s(seen, job) or [0.0])
        after = [end for end in ends if end > seen.killed_ns]
        longest_s = max(((b - a) / 1e9 for a, b in pairwise(ends) if b > seen.killed_ns), default=0.0)
        going_on = len(after) > FIRST_COUNTED and longest_s <= STOOD_STILL * usual_s
        found = f"{len(after)} iterations, the longest {longest_s:.2f} s (usually {usual_s:.2f})"
        yield Verdict("restart", f"{job} trains on while hostd is gone", found, going_on)
    found = "never" if seen.found_again_s is None else f"after {seen.found_again_s:.1f} s"
    claim = f"the next hostd paces both jobs within {FOUND_AGAIN_S:g} s"
    yield Verdict("restart", claim, found, seen.found_again_s is not None and seen.found_again_s <= FOUND_AGAIN_S)
