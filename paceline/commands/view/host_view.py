"""A host as `paceline status` and `top` draw it: a line per job, and below it a line per flow with three bars.

    bert  iteration 41 of 820 ms, sending, 1.12 times as slow as alone
      ring/h0>h1            25M  34%  ██████··  600M  ██████··  600M  █████···  573M

Requested is the rate that was decided, kernel the rate that the kernel enforces, achieved the rate that the flow had.
All bars have the same scale. A line fits the screen, from 48 columns on: of a longer name the end is shown, which tells
flows apart, and a sentence goes on in the next line.
"""

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Group

RATES = ("requested", "kernel", "achieved")
FLOW_CELLS, BAR_CELLS = 18, 8  # in 80 columns; wider terminals show more of a name, narrower ones have shorter bars
LEAST_FLOW_CELLS = 10
NUMBER_CELLS = 37  # of a flow's line, besides its name and bars
NOTHING = "–"


def host_view(found: Mapping[str, Any], columns: int = 80) -> "Group":
    from rich.console import Group
    from rich.text import Text

    return Group(*(Text(line) for line in lines(found, columns)))  # no markup: a job's name may have brackets


def lines(found: Mapping[str, Any], columns: int = 80) -> Iterator[str]:
    yield from _wrapped(_of_host(found), columns)
    rates = [flow[f"{kind}_bps"] or 0.0 for job in found["jobs"] for flow in job["flows"] for kind in RATES]
    scale_bps = max([1.0, *rates])
    flow_cells, bar_cells = _cells(columns)
    yield ""
    titles = "".join(f"  {name[: bar_cells + 6]:<{bar_cells + 6}}" for name in RATES)
    yield f"  {'flow':<{flow_cells}} {'size':>5} {'sent':>4}{titles}".rstrip()
    for job in found["jobs"]:
        yield from _wrapped([f"{job['name']}  {_of_job(job, found['backend'])}", *_not_paced(job)], columns)
        for flow in job["flows"]:
            yield _of_flow(flow, job["name"], flow_cells, bar_cells, scale_bps).rstrip()
    ages = found.get("trouble_times", {})
    troubles = (f"{count} × {reason}{_ago(ages.get(reason))}" for reason, count in found["troubles"].items())
    unseen = (f"not seen: {name}: {why}" for name, why in found["invisible"].items())
    yield from _wrapped([*troubles, *unseen], columns)


def _cells(columns: int) -> tuple[int, int]:
    """Of a flow's name, and of a bar."""
    flow_cells = max(LEAST_FLOW_CELLS, FLOW_CELLS + columns - 80) if columns >= 80 else FLOW_CELLS - (80 - columns) // 3
    flow_cells = max(LEAST_FLOW_CELLS, flow_cells)
    return flow_cells, max(0, min(BAR_CELLS, (columns - NUMBER_CELLS - flow_cells) // len(RATES)))


def _wrapped(texts: Iterable[str], columns: int) -> Iterator[str]:
    """Each text, its further lines indented."""
    for text in texts:
        indent = " " * (len(text) - len(text.lstrip()) + 4)
        yield from textwrap.wrap(text, max(20, columns), subsequent_indent=indent, drop_whitespace=True) or [text]


def _not_paced(job: Mapping[str, Any]) -> Iterator[str]:
    """The reasons; what the job's own line says already is not said again."""
    for one in job.get("not_paced", ()):
        if one["reason"] not in ("left_to_tcp", "observing"):
            yield f"  not paced, or not all of it: {one['why']}"


def _ago(times: Mapping[str, Any] | None) -> str:
    if times is None:
        return ""
    seconds = times["age_s"]
    return f", last {seconds:.0f} s ago" if seconds < 120 else f", last {seconds / 60:.0f} min ago"


def _of_host(found: Mapping[str, Any]) -> Iterator[str]:
    switch = found["switch"]
    with_switch = f"with its switch, {switch['round_trip_ms']:.1f} ms away"
    where = "deciding alone" if switch["deciding_alone"] else with_switch
    if found["mode"] == "observe":
        where = "deciding nothing"
    yield f"{found['host']}: {found['mode']} by {found['backend']}, policy {found['policy']}, {where}"
    for what, by in found.get("released_by", {}).items():
        every = "every limit is" if what == "all" else f"limits of {what} are"
        yield f"  {every} lifted until the next reload: {by}"
    if found.get("why_not_enforcing") and "all" not in found.get("released_by", {}):
        yield f"  nothing is enforced: {found['why_not_enforcing']}"
    if switch["deciding_alone"] and switch["why"]:
        yield f"  {switch['why']}"
    if switch["silent_switches"]:
        yield f"  silent switches: {', '.join(switch['silent_switches'])}"
    for device, count in found.get("cross_traffic_connections", {}).items():
        yield f"  {device} is divided with other traffic: {count} connection{'s' * (count > 1)} of no job"
    for device, load_bps in found.get("cross_traffic_load_bps", {}).items():
        sent_bps = found["cross_traffic_bps"].get(device, load_bps)
        yield f"  {device}: other traffic sends {sent_bps / 1e6:.0f} Mbit/s, and counts as {load_bps / 1e6:.0f} Mbit/s"
    counted = f"slot {found['slot']}, missed {found['missed_slots']}, lifted {found['fail_opens']} times"
    yield f"  {counted}; sizes in bytes, rates in bit/s"


def _of_job(job: Mapping[str, Any], backend: str) -> str:
    took = f" of {job['iteration_ms']:.0f} ms" if job["iteration_ms"] is not None else ""
    unpaced = f"left to TCP: {job['left_to_tcp']}" if job.get("left_to_tcp") else "watched, not paced"
    if not job["controlled"] and job.get("estimated_slowdown") is not None:
        unpaced += f", about {job['estimated_slowdown']:.2f} times as slow as alone"
    paced = f"{job['slowdown']:.2f} times as slow as alone" if job["controlled"] else unpaced
    if job["controlled"] and job.get("backend") not in (None, backend):
        paced += f", by {job['backend']}: {job['why_backend']}"
    return f"iteration {job['iteration']}{took}, {job['phase']}, {paced}"


def _of_flow(flow: Mapping[str, Any], job: str, cells: int, bar_cells: int, scale_bps: float) -> str:
    name = flow["flow"].removeprefix(f"{job}/")
    name = name if len(name) <= cells else "…" + name[1 - cells :]
    size = flow["size_bytes"]
    sent = f"{100 * flow['sent_bytes'] / max(1, size):.0f}%" if flow["live"] and size is not None else ""
    bars = "".join(f"  {_bar_of(flow, kind, bar_cells, scale_bps)}" for kind in RATES)
    return f"  {name:<{cells}} {short(size) if size is not None else NOTHING:>5} {sent:>4}{bars}"


def _bar_of(flow: Mapping[str, Any], kind: str, cells: int, scale_bps: float) -> str:
    bps = flow[f"{kind}_bps"]
    if bps is None:  # no limit, so no bar
        return f"{'':<{cells}} {'free':>5}"
    return f"{bar(bps / scale_bps, cells)} {short(bps):>5}"


def bar(part: float, cells: int = BAR_CELLS) -> str:
    full = round(max(0.0, min(1.0, part)) * cells)
    return "█" * full + "·" * (cells - full)


def short(number: float) -> str:
    """In at most five characters: 0, 950k, 1.5M, 600M, 12.5G."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= 0.9995 * size:
            return f"{number / size:.3g}{unit}" if number < 999.5 * size else f"{number / size:.0f}{unit}"
    return f"{number:.0f}"
