"""What the page shows: the daemons that are watched, the timelines of their links, and the jobs that they know.

Sources (sources.py) write here, the server reads. Everything is bounded: links, jobs and flows of a daemon beyond
MOST_… are counted and not shown.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from paceline import __version__
from paceline.web.timeline import Timeline

MOST_LINKS, MOST_ROWS = 128, 256
AWAY_S = 3.0  # without a word
Row = dict[str, Any]


@dataclass(slots=True)
class Daemon:
    """One hostd or switchd, present or away."""

    name: str
    kind: str  # host or switch
    address: str
    heard_s: float | None = None  # of `time.monotonic`
    since_s: float = field(default_factory=time.monotonic)  # of what `away` says now
    why: str = "has not answered yet"
    away: bool = True
    facts: Row = field(default_factory=dict)  # what it says of itself
    jobs: list[Row] = field(default_factory=list)
    flows: list[Row] = field(default_factory=list)
    links_left_out: int = 0
    timelines: dict[str, Timeline] = field(default_factory=dict)

    def heard(self) -> None:
        self.heard_s = time.monotonic()
        if self.away:
            self.away, self.since_s, self.why = False, self.heard_s, ""

    def lost(self, why: str) -> None:
        """What it said is not true any more: its jobs go with it, the timelines stay."""
        if not self.away:
            self.since_s = time.monotonic()
        self.away, self.why = True, why
        self.jobs, self.flows = [], []

    def timeline(self, link: str, kind: str, capacity_bps: float, slot_s: float) -> Timeline | None:
        """None: one too many."""
        found = self.timelines.get(link)
        if found is None or (found.slot_s, found.capacity_bps, found.daemon) != (slot_s, capacity_bps, self.name):
            if found is None and len(self.timelines) >= MOST_LINKS:
                return None
            found = self.timelines[link] = Timeline(self.name, link, kind, capacity_bps, slot_s)
        return found


class Board:
    def __init__(self) -> None:
        self.daemons: list[Daemon] = []

    def state(self) -> Row:
        now_s = time.monotonic()
        return {
            "version": __version__,
            "daemons": [_described(one, now_s) for one in self.daemons],
            "links": [timeline.meta() | {"away": away} for timeline, away in self.timelines()],
            "jobs": list(_first(self._jobs())),
            "flows": list(_first(row | {"daemon": one.name} for one in self.daemons for row in one.flows)),
        }

    def _jobs(self) -> Iterable[Row]:
        """As hosts see them; of hosts that are not watched themselves, as their switch does."""
        hosts = [one for one in self.daemons if one.kind == "host" and not one.away]
        names, seen = {one.name for one in hosts}, {row["name"] for one in hosts for row in one.jobs}
        for one in self.daemons:
            for row in one.jobs:
                if one.kind == "host" or (row["host"] not in names if row["host"] else row["name"] not in seen):
                    yield row | {"daemon": one.name}

    def timelines(self) -> Iterable[tuple[Timeline, bool]]:
        """And whether the daemon is away that would know more."""
        for one in self.daemons:
            for timeline in one.timelines.values():
                yield timeline, one.away

    def history(self, level: int, since: Mapping[str, int] | None = None) -> Row:
        """By the timelines' ids: what is newer than a bucket, or all."""
        known = since or {}
        links = {one.id: one.since(level, known.get(one.id, -1)) for one, _ in self.timelines()}
        return {"links": {id: row for id, row in links.items() if row["buckets"]}}


def _described(one: Daemon, now_s: float) -> Row:
    return {
        "name": one.name,
        "kind": one.kind,
        "address": one.address,
        "away": one.away,
        "why": one.why,
        "for_s": round(now_s - one.since_s),
        "links_left_out": one.links_left_out,
        **({} if one.away else one.facts),
    }


def _first(rows: Iterable[Row]) -> Iterable[Row]:
    return (row for _, row in zip(range(MOST_ROWS), rows, strict=False))
