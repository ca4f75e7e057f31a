"""Timelines as a trace that ui.perfetto.dev and chrome://tracing open: the JSON of trace events.

    process   a link, as one daemon tells it        thread    a job on it
    slice     (ph X) the job had a rate, without a break; its mean in Mbit/s is an argument
    counter   (ph C) the link's load, and each job's part of it, in Mbit/s

Times are microseconds since the first bucket of the trace: slots count from an epoch, and viewers round large numbers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Event = dict[str, Any]


def trace_document(links: Iterable[Mapping[str, Any]], history: Mapping[str, Any]) -> dict[str, Any]:
    """`links` as in the board's state, `history` as the board has it."""
    rows = history["links"]
    shown = [link for link in links if link["id"] in rows]
    begin_s = min((_start_s(rows[link["id"]]) for link in shown), default=0.0)
    events = [event for pid, link in enumerate(shown, 1) for event in _of_link(pid, link, rows[link["id"]], begin_s)]
    return {"displayTimeUnit": "ms", "traceEvents": events, "otherData": {"begins_s": begin_s}}


def _start_s(row: Mapping[str, Any]) -> float:
    return float(row["buckets"][0] * row["step_s"])


def _of_link(pid: int, link: Mapping[str, Any], row: Mapping[str, Any], begin_s: float) -> Iterator[Event]:
    title = f"{link['name']} {link['kind']} by {link['daemon']}"
    yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": title}}
    yield {"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}}
    buckets, step_us = row["buckets"], 1e6 * row["step_s"]
    times_us = [round(bucket * step_us - 1e6 * begin_s, 3) for bucket in buckets]
    for tid, (job, rates_bps) in enumerate(sorted(row["jobs"].items()), 1):
        yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": job}}
        for first, last in _runs(buckets, rates_bps):
            mean_mbps = sum(rates_bps[first : last + 1]) / (last + 1 - first) / 1e6
            yield {
                "ph": "X",
                "pid": pid,
                "tid": tid,
                "name": job,
                "cat": link["kind"],
                "ts": times_us[first],
                "dur": round(times_us[last] - times_us[first] + step_us, 3),
                "args": {"mean Mbit/s": round(mean_mbps, 3), "first bucket": buckets[first]},
            }
    yield from _counters(pid, row, times_us, step_us)


def _runs(buckets: Sequence[int], rates_bps: Sequence[float]) -> Iterator[tuple[int, int]]:
    """The first and last index of each run of buckets, without a gap, in which there was a rate."""
    first: int | None = None
    for at, rate_bps in enumerate(rates_bps):
        if first is not None and (not rate_bps or buckets[at] != buckets[at - 1] + 1):
            yield first, at - 1
            first = None
        if rate_bps and first is None:
            first = at
    if first is not None:
        yield first, len(rates_bps) - 1


def _counters(pid: int, row: Mapping[str, Any], times_us: Sequence[float], step_us: float) -> Iterator[Event]:
    before: dict[str, float] | None = None
    for at, time_us in enumerate(times_us):
        parts = {job: round(rates_bps[at] / 1e6, 3) for job, rates_bps in sorted(row["jobs"].items())}
        gap = at > 0 and row["buckets"][at] != row["buckets"][at - 1] + 1
        if gap:
            yield _counter(pid, times_us[at - 1] + step_us, dict.fromkeys(parts, 0.0))
        if parts != before or gap:
            yield _counter(pid, time_us, parts)
        before = parts
    if times_us:
        yield _counter(pid, times_us[-1] + step_us, dict.fromkeys(before or {}, 0.0))


def _counter(pid: int, time_us: float, parts: Mapping[str, float]) -> Event:
    values = {"load": round(sum(parts.values()), 3), **{f"load of {job}": part for job, part in parts.items()}}
    return {"ph": "C", "pid": pid, "name": "Mbit/s", "ts": round(time_us, 3), "args": values}
