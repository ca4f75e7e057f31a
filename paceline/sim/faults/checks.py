"""What must hold in every history: safety all the time, liveness once the faults have ended.

At every moment, whatever is out of order:

    tables       no plan and no division ever gives a link more than it carries
    divided      the shares that one switch has given or passed on exceed a link for HAND_OVER_SLOTS at most
    on its own   a host that has lost its switch holds no flow to the switch's word for more than ALONE_SLOTS
    lifted       no limit is in force for a flow that its host does not know, nor on a host without a daemon
    held         of flows that share links, not all are held to the floor for more than HELD_SLOTS

SETTLE_SLOTS after the last fault, each for no longer than the slots it is given:

    shares       what hosts guarantee their flows exceeds no link
    connected    no host decides alone, no switch counts another as silent while flows ask
    granted      every flow with bytes waiting has a grant, and every claimed flow an entry wherever it crosses a link
    forgotten    no switch has an entry of a flow that its host does not claim

and every job has finished an iteration by the end. When all jobs have left, nothing is left of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paceline.flowcore.host.agent import SILENCE_SLOTS
from paceline.flowcore.host.flow_phase import Phase
from paceline.flowcore.host.flow_state import FlowState
from paceline.flowcore.messages.events import FLOOR_BPS
from paceline.flowcore.messages.reports import Grant
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.switch.agent import SwitchAgent
from paceline.flowcore.switch.load_table import ENTRY_SLOTS
from paceline.sim.faults.world import SLOT_NS, World

SLACK = 1.0 + 1e-6
HAND_OVER_SLOTS = ENTRY_SLOTS + 2  # a share that was lost with its message goes with its claim
ALONE_SLOTS = SILENCE_SLOTS + 2
SETTLE_SLOTS = 6
CALM_SLOTS = ENTRY_SLOTS + 2
GONE_SLOTS = 2  # a withdrawal travels in a fraction of a slot
HELD_SLOTS = 2 * ENTRY_SLOTS + 2  # a switch is missed, then entries of a lost host end
NO_GRANT_SLOTS = 2 * ENTRY_SLOTS + 2  # a short burst does not ask at once


class Violation(Exception):
    def __init__(self, slot: float, rule: str, what: str) -> None:
        super().__init__(f"slot {slot:.2f}: {rule}: {what}")
        self.rule = rule


class Checks:
    """Looks at a world now and then; raises Violation."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._since_ns: dict[tuple[str, str], int] = {}  # what is not as it should be, and since when
        self._seen: set[tuple[str, str]] = set()
        self._alone: dict[str, tuple[int, dict[FlowId, Grant | None]]] = {}  # since when, and the word it had then
        self._calm_ns = round((world.history.calm_slot + SETTLE_SLOTS) * SLOT_NS)
        self._ended_before: dict[str, int] | None = None

    def look(self) -> None:
        self._seen = set()
        self._tables()
        self._divided()
        self._on_their_own()
        self._lifted()
        self._held()
        if self._world.now_ns >= self._calm_ns:
            if self._ended_before is None:
                self._ended_before = dict(self._world.training.ended)
            self._calm()
        self._since_ns = {key: since for key, since in self._since_ns.items() if key in self._seen}

    def at_the_end(self) -> None:
        """Of the jobs' time."""
        before = self._ended_before
        assert before is not None, "the history has no calm"
        for job in self._world.training.running:
            if self._world.training.ended[job] <= before[job]:
                raise self._violation(
                    "progress", f"{job} has ended no iteration since slot {self._calm_ns / SLOT_NS:g}"
                )

    def nothing_left(self) -> None:
        """When all jobs have left and entries have ended."""
        for name, host in self._world.hosts.items():
            if host.agent.flows or host.in_force:
                raise self._violation("forgotten", f"{name} still has {[*host.agent.flows, *host.in_force][0]}")
        for name, switch in self._world.switches.items():
            arbitration = switch.agent.arbitration
            if len(switch.agent.table):
                raise self._violation("forgotten", f"{name} still has an entry")
            if arbitration is not None and not (arbitration.empty and not arbitration.shares):
                raise self._violation("forgotten", f"{name} still has a claim or a share")

    # ---- Whatever is out of order ----

    def _tables(self) -> None:
        for name, agent in self._agents():
            arbitration = agent.arbitration
            peak = max(agent.table.peak_ratio, 0.0 if arbitration is None else arbitration.peak_ratio)
            if not peak <= SLACK:
                raise self._violation("tables", f"{name} gave away {peak:.3f} of a link")

    def _agents(self) -> Iterator[tuple[str, SwitchAgent]]:
        for name, switch in self._world.switches.items():
            yield name, switch.agent
        for name, host in self._world.hosts.items():
            yield f"{name} on its own", host.agent.local

    def _divided(self) -> None:
        for name, switch in self._world.switches.items():
            arbitration = switch.agent.arbitration
            if arbitration is None or not arbitration.shares or not self._awake(name):
                continue
            known_bps = {**switch.domain.scope_bps, **switch.domain.table_bps}
            given = {flow: share.share_bps for flow, share in arbitration.shares.items()}
            for link, ratio in self._over(given, known_bps):
                self._lasts("divided", f"{name} gives {link} {ratio:.3f} times", HAND_OVER_SLOTS, f"{name} {link}")

    def _on_their_own(self) -> None:
        now_ns = self._world.now_ns
        for name, host in self._world.hosts.items():
            if not self._awake(name):
                self._alone.pop(name, None)
                continue
            stream = self._world.streams[name, host.switch]
            if stream.connected(name) and self._awake(host.switch) and not stream.late_ns and not stream.cuts:
                self._alone.pop(name, None)
                continue
            flows = host.agent.flows
            since_ns, word = self._alone.setdefault(name, (now_ns, {flow: flows[flow].grant for flow in flows}))
            if now_ns - since_ns <= ALONE_SLOTS * SLOT_NS or stream.late_ns:
                continue
            for flow in flows.values():
                old = word.get(flow.id)
                if flow.live and old is not None and flow.grant is old and flow.phase in (Phase.ASKED, Phase.GRANTED):
                    raise self._violation("on its own", f"{name} holds {flow.id} to the word of a switch it has lost")

    def _lifted(self) -> None:
        for name, host in self._world.hosts.items():
            unknown = host.in_force.keys() - host.agent.flows.keys() if self._world.alive(name) else host.in_force
            if unknown:
                raise self._violation("lifted", f"{name} limits {sorted(unknown)[0]}")

    def _held(self) -> None:
        """Groups of flows that wait for nothing: neither for each other nor for a job, a daemon or a liar."""
        world = self._world
        if any(host.lies for host in world.hosts.values()):
            return
        groups: list[tuple[set[str], list[FlowState], bool]] = []  # links, flows, and whether all that is so
        for name, host in world.hosts.items():
            for flow in host.agent.live_flows():
                links, flows = set(flow.path), [flow]
                idle = (
                    not self._awake(name) or world.training.hung(flow.id.job) or flow.limit.ceiling_bps > 2 * FLOOR_BPS
                )
                for group in [group for group in groups if not links.isdisjoint(group[0])]:
                    groups.remove(group)
                    links, flows, idle = links | group[0], flows + group[1], idle or group[2]
                groups.append((links, flows, idle))
        for _, flows, idle in groups:
            if not idle:
                for flow in flows:
                    self._lasts("held", f"{flow.id} and all it shares links with are held", HELD_SLOTS, _burst(flow))

    # ---- When faults have ended ----

    def _calm(self) -> None:
        world = self._world
        guaranteed: dict[FlowId, float] = {}
        claimed: dict[FlowId, tuple[str, ...]] = {}
        for name, host in world.hosts.items():
            live = host.agent.live_flows()
            if host.agent.isolated and any(flow.claimed for flow in live):
                self._lasts("connected", f"{name} decides alone", CALM_SLOTS)
            for flow in live:
                if flow.claimed and flow.limit.rate_bps > FLOOR_BPS:
                    guaranteed[flow.id] = flow.limit.rate_bps
                if flow.phase in (Phase.READY, Phase.ASKED):
                    self._lasts("granted", f"{flow.id} has no grant", NO_GRANT_SLOTS, _burst(flow))
            for state in host.agent.flows.values():
                if state.claimed:
                    claimed[state.id] = state.path
        capacity_bps = {name: link.capacity_bps for name, link in world.topology.links.items()}
        for link, ratio in self._over(guaranteed, capacity_bps):
            self._lasts("shares", f"hosts guarantee {ratio:.3f} times {link}", CALM_SLOTS, link)
        self._entries(claimed)

    def _entries(self, claimed: dict[FlowId, tuple[str, ...]]) -> None:
        world = self._world
        for name, switch in world.switches.items():
            table, arbitration = switch.agent.table, switch.agent.arbitration
            for flow, path in claimed.items():
                if flow not in table and not switch.domain.table_bps.keys().isdisjoint(path):
                    self._lasts("granted", f"{name} has no entry of {flow}", CALM_SLOTS)
            for flow in self._known():
                if flow not in claimed and flow in table:
                    self._lasts("forgotten", f"{name} has an entry of {flow}", GONE_SLOTS)
            if arbitration is not None:
                for flow in arbitration.shares.keys() - claimed.keys():
                    self._lasts("forgotten", f"{name} has a share of {flow}", GONE_SLOTS)
            if claimed and switch.agent.missed and switch.domain.hosts:
                own = any(flow.source in switch.domain.hosts for flow in claimed)
                if own:
                    self._lasts("connected", f"{name} counts {sorted(switch.agent.missed)} as silent", CALM_SLOTS)

    def _known(self) -> Iterator[FlowId]:
        for host in self._world.hosts.values():
            yield from host.agent.flows

    # ---- How long ----

    def _over(self, given: dict[FlowId, float], capacity_bps: Mapping[str, float]) -> list[tuple[str, float]]:
        """The links that are given away more than once."""
        load_bps: dict[str, float] = {}
        for flow, rate_bps in given.items():
            if rate_bps > 0.0:
                for link in self._world.topology.path(flow.source, flow.target, str(flow)):
                    if link in capacity_bps:
                        load_bps[link] = load_bps.get(link, 0.0) + rate_bps
        return [
            (link, load / capacity_bps[link]) for link, load in load_bps.items() if load > SLACK * capacity_bps[link]
        ]

    def _lasts(self, rule: str, what: str, slots: float, key: str = "") -> None:
        """It is so now; a violation if it has been for so many slots."""
        noted = (rule, key or what)
        self._seen.add(noted)
        since_ns = self._since_ns.setdefault(noted, self._world.now_ns)
        if self._world.now_ns - since_ns > slots * SLOT_NS:
            raise self._violation(rule, f"{what}, for {(self._world.now_ns - since_ns) / SLOT_NS:.1f} slots")

    def _awake(self, name: str) -> bool:
        return self._world.alive(name) and not self._world.stalled(name)

    def _violation(self, rule: str, what: str) -> Violation:
        return Violation(self._world.now_ns / SLOT_NS, rule, what)


def _burst(flow: FlowState) -> str:
    """The flow's next burst is another matter."""
    return f"{flow.id} {flow.ready_ns}"
