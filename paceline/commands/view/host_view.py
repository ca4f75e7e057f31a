"""A host as `paceline status` and `top` draw it: a line per job, and below it a line per flow with three bars.

    bert  iteration 41 of 820 ms, sending, 1.12 times as slow as alone
      ring/h0>h1            25M  34%  ██████··  600M  ██████··  600M  █████···  573M

Requested is the rate that was decided, kernel the rate that the kernel enforces, achieved the rate that the flow had.
All bars have the same scale. A line fits 80 columns: of a longer name the end is shown, which tells flows apart.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Group

BAR_CELLS = 8
RATES = ("requested", "kernel", "achieved")
FLOW_CELLS = 18  # in 80 columns; wider terminals show more
NOTHING = "–"


def host_view(found: Mapping[str, Any], columns: int = 80) -> "Group":
    from rich.console import Group
    from rich.text import Text

    return Group(*(Text(line) for line in lines(found, columns)))  # no markup: a job's name may have brackets


def lines(found: Mapping[str, Any], columns: int = 80) -> Iterator[str]:
    yield from _of_host(found)
    rates = [flow[f"{kind}_bps"] or 0.0 for job in found["jobs"] for flow in job["flows"] for kind in RATES]
    scale_bps = max([1.0, *rates])
    flow_cells = max(FLOW_CELLS, columns - 80 + FLOW_CELLS)
    yield ""
    titles = "".join(f"  {name:<{BAR_CELLS + 6}}" for name in RATES)
    yield f"  {'flow':<{flow_cells}} {'size':>5} {'sent':>4}{titles}".rstrip()
    for job in found["jobs"]:
        yield f"{job['name']}  {_of_job(job)}"
        for flow in job["flows"]:
            yield _of_flow(flow, job["name"], flow_cells, scale_bps).rstrip()
    yield from (f"{count} × {reason}" for reason, count in found["troubles"].items())
    yield from (f"not seen: {name}: {why}" for name, why in found["invisible"].items())


def _of_host(found: Mapping[str, Any]) -> Iterator[str]:
    switch = found["switch"]
    with_switch = f"with its switch, {switch['round_trip_ms']:.1f} ms away"
    where = "deciding alone" if switch["deciding_alone"] else with_switch
    if found["mode"] == "observe":
        where = "deciding nothing"
    yield f"{found['host']}: {found['mode']} by {found['backend']}, policy {found['policy']}, {where}"
    if switch["deciding_alone"] and switch["why"]:
        yield f"  {switch['why']}"
    if switch["silent_switches"]:
        yield f"  silent switches: {', '.join(switch['silent_switches'])}"
    counted = f"slot {found['slot']}, missed {found['missed_slots']}, lifted {found['fail_opens']} times"
    yield f"  {counted}; sizes in bytes, rates in bit/s"


def _of_job(job: Mapping[str, Any]) -> str:
    took = f" of {job['iteration_ms']:.0f} ms" if job["iteration_ms"] is not None else ""
    unpaced = f"left to TCP: {job['left_to_tcp']}" if job.get("left_to_tcp") else "watched, not paced"
    paced = f"{job['slowdown']:.2f} times as slow as alone" if job["controlled"] else unpaced
    return f"iteration {job['iteration']}{took}, {job['phase']}, {paced}"


def _of_flow(flow: Mapping[str, Any], job: str, cells: int, scale_bps: float) -> str:
    name = flow["flow"].removeprefix(f"{job}/")
    name = name if len(name) <= cells else "…" + name[1 - cells :]
    size = flow["size_bytes"]
    sent = f"{100 * flow['sent_bytes'] / max(1, size):.0f}%" if flow["live"] and size is not None else ""
    bars = "".join(f"  {_bar_of(flow, kind, scale_bps)}" for kind in RATES)
    return f"  {name:<{cells}} {short(size) if size is not None else NOTHING:>5} {sent:>4}{bars}"


def _bar_of(flow: Mapping[str, Any], kind: str, scale_bps: float) -> str:
    bps = flow[f"{kind}_bps"]
    if bps is None:  # no limit, so no bar
        return f"{'':<{BAR_CELLS}} {'free':>5}"
    return f"{bar(bps / scale_bps)} {short(bps):>5}"


def bar(part: float) -> str:
    cells = round(max(0.0, min(1.0, part)) * BAR_CELLS)
    return "█" * cells + "·" * (BAR_CELLS - cells)


def short(number: float) -> str:
    """In at most five characters: 0, 950k, 1.5M, 600M, 12.5G."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= 0.9995 * size:
            return f"{number / size:.3g}{unit}" if number < 999.5 * size else f"{number / size:.0f}{unit}"
    return f"{number:.0f}"
