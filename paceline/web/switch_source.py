"""A switch on the board: snapshots of its table, one a slot, by its Watch stream."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import replace

import grpc

from paceline.flowcore.model.job_names import readable
from paceline.web.board import AWAY_S, Board, Daemon, Row
from paceline.wire.codec import BadMessage
from paceline.wire.host_state import HostState, JobState
from paceline.wire.watching import JobLoad, Snapshot, watch

RETRY_S = 0.5
STATES_EVERY_SLOTS = 16  # a second of 60 ms
REMEMBERED_SLOTS = 100  # a job that wants no link now is computing, or has gone
SMALL = 0.01  # less of a link is no turn
CROSS_TRAFFIC = "cross traffic"  # among the jobs of a link


class SwitchSource:
    """`run` never ends by itself: a switch that is away is asked again. `diagnose` says why a handshake fails."""

    def __init__(
        self,
        board: Board,
        address: str,
        open_channel: Callable[[], grpc.aio.Channel],
        diagnose: Callable[[], str | None] | None = None,
        name: str = "",
    ) -> None:
        self._open_channel, self._diagnose = open_channel, diagnose
        self._daemon = Daemon(name or address, "switch", address)
        self._wanted_slot: dict[str, int] = {}  # when a job last had a claim
        self._hosts: dict[str, HostState] = {}  # what they told
        board.daemons.append(self._daemon)

    async def run(self) -> None:
        while True:
            try:
                async with self._open_channel() as channel:
                    await self._converse(channel)
                self._daemon.lost("it ended the stream")
            except grpc.aio.AioRpcError as error:
                self._daemon.lost(await self._why(error))
            except (BadMessage, TimeoutError) as error:
                self._daemon.lost(str(error) or f"no word for {AWAY_S:g} s")
            await asyncio.sleep(RETRY_S)

    async def _converse(self, channel: grpc.aio.Channel) -> None:
        """A stream of the table, a snapshot a slot, and a slow one of what hosts tell of themselves."""
        slow = asyncio.create_task(self._hear_hosts(channel))
        try:
            async with aclosing(watch(channel)) as snapshots:
                while True:
                    try:
                        self._show(await asyncio.wait_for(anext(snapshots), AWAY_S))
                    except StopAsyncIteration:
                        return
        finally:
            slow.cancel()
            await asyncio.gather(slow, return_exceptions=True)

    async def _hear_hosts(self, channel: grpc.aio.Channel) -> None:
        async with aclosing(watch(channel, STATES_EVERY_SLOTS, host_states=True)) as snapshots:
            async for snapshot in snapshots:
                self._hosts = snapshot.host_states

    async def _why(self, error: grpc.aio.AioRpcError) -> str:
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            return str(error.details())
        found = await asyncio.to_thread(self._diagnose) if self._diagnose is not None else None
        return found or "no switch listens there"

    def _show(self, snapshot: Snapshot) -> None:
        daemon = self._daemon
        daemon.name, slot_s = snapshot.switch, snapshot.slot_length_ns / 1e9
        parts: dict[str, list[JobLoad]] = {}
        for part in snapshot.job_loads:
            parts.setdefault(part.link, []).append(part)
        left_out = 0
        for link in snapshot.links:
            timeline = daemon.timeline(link.link, "promised", link.capacity_bps, slot_s)
            if timeline is None:
                left_out += 1
                continue
            rates_bps = {part.job: part.share_bps or part.planned_bps for part in parts.get(link.link, ())}
            if not snapshot.policy and link.load_bps:  # an older switch tells no job
                rates_bps = {"all jobs": link.load_bps[0]}
            if link.others_bps:
                rates_bps[CROSS_TRAFFIC] = link.others_bps
            timeline.add(snapshot.slot, rates_bps)
        daemon.links_left_out = left_out
        daemon.facts = {
            "policy": snapshot.policy or None,
            "slot": snapshot.slot,
            "slot_ms": slot_s * 1e3,
            "hosts": list(snapshot.hosts),
            "silent_switches": list(snapshot.silent),
            "messages": snapshot.messages,
            "plans_refused": snapshot.plans_refused,
            "refused": snapshot.refused,
            "troubles": {},
        }
        daemon.jobs = list(self._jobs(snapshot))
        daemon.heard()

    def _jobs(self, snapshot: Snapshot) -> Iterable[Row]:
        capacity_bps = {link.link: link.capacity_bps for link in snapshot.links}
        by_job: dict[str, list[JobLoad]] = {}
        for part in snapshot.job_loads:
            by_job.setdefault(part.job, []).append(part)
            self._wanted_slot[part.job] = snapshot.slot
        first_slot = snapshot.slot - REMEMBERED_SLOTS
        self._wanted_slot = {job: slot for job, slot in self._wanted_slot.items() if slot > first_slot}
        shown = readable({job.name for state in self._hosts.values() for job in state.jobs})
        for job in sorted(self._wanted_slot.keys() - set(shown.values())):
            yield _row(snapshot, JobState(job, "computing", True), None, by_job, capacity_bps)
        for host, state in sorted(self._hosts.items()):
            for known in state.jobs:
                yield _row(snapshot, replace(known, name=shown[known.name]), host, by_job, capacity_bps)


def _row(
    snapshot: Snapshot,
    job: JobState,
    host: str | None,
    by_job: dict[str, list[JobLoad]],
    capacity_bps: dict[str, float],
) -> Row:
    """Of a job of this host; None: no host has told of it. What it has now, the table knows better than the host."""
    parts = by_job.get(job.name, [])
    narrow = [part for part in parts if _bps(part) < SMALL * capacity_bps[part.link]]
    urgency = snapshot.urgency.get(job.name)
    return {
        "name": job.name,
        "host": host,
        "phase": job.phase if not parts else "waiting" if narrow else "sending",
        "iteration": job.iteration or None,
        "iteration_ms": job.iteration_ms,
        "slowdown": job.slowdown,
        "weight": round(urgency, 3) if urgency is not None else None,
        "rate_bps": round(max((_bps(part) for part in parts), default=0.0)),
        "paced": job.paced,
        "why": [*(f"not paced: {why}" for why in job.why), *([_why_waits(narrow, by_job)] if narrow else [])],
    }


def _bps(part: JobLoad) -> float:
    return part.share_bps or part.planned_bps


def _why_waits(narrow: Iterable[JobLoad], by_job: dict[str, list[JobLoad]]) -> str:
    """The jobs that have the links it wants."""
    links = {part.link for part in narrow}
    mine = {part.job for part in narrow}
    there = [part for parts in by_job.values() for part in parts if part.link in links and _bps(part)]
    others = sorted({part.job for part in there} - mine)
    ahead = f"worth more there now: {', '.join(others[:3])}" if others else "it has just begun"
    return f"waits for {', '.join(sorted(links)[:3])}; {ahead}"
