"""A switch's place in a topology: its agent, its routes, the paths of flows, and the checks of messages.

Another topology is another Place. It takes over from the one before while streams stay open:

    prepared ──hears all that the one in charge hears, and does nothing──▶ in charge

The agent's state is soft: after WARM_UP_SLOTS, in which every host has reported all its flows, a new agent knows what
the old one does. So there is no slot in which hosts are not answered, or are given what has been promised to others.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from paceline.flowcore.messages.escalation import EscalatedClaims, ShareUpdate
from paceline.flowcore.messages.events import PeersLost, Send, SwitchEvent
from paceline.flowcore.messages.reports import Claim, Report
from paceline.flowcore.model.domain import domains
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.policy import policy_named
from paceline.flowcore.switch.agent import SwitchAgent
from paceline.wire.codec import BadMessage, FlowPaths
from switchd.config import SwitchConfig
from switchd.routing import RoutingTable
from switchd.topology.phases import phases
from switchd.validation import MessageValidator

WARM_UP_SLOTS = 3


class Place:
    def __init__(self, config: SwitchConfig, slots: SlotClock) -> None:
        self.config = config
        self._domain = domains(config.topology)[config.name]
        self.own_hosts = self._domain.hosts
        policy = policy_named(config.policy)
        self.agent = SwitchAgent(
            config.name,
            self._domain,
            slots,
            policy,
            max_weight=config.max_weight,
            background=config.background,
        )
        self.routes = RoutingTable(config.topology, config.name)
        self.phases_ns = phases(config.topology, config.name, slots.length_ns)
        self.paths = FlowPaths(config.topology)
        self.validator = MessageValidator(
            config.name,
            config.topology,
            self._domain,
            config.slots.horizon,
            config.max_flows_per_host,
            self.agent.remembers,
            self.paths.path,
            self.agent.arbitration is not None,
        )

    def begin(self, before: "Place", now_ns: int) -> None:
        """To listen, beside the place in charge."""
        if before.agent.silent:
            self.agent.handle(PeersLost(tuple(sorted(before.agent.silent))), now_ns)

    def hear(self, event: SwitchEvent, now_ns: int) -> None:
        """What the place in charge hears; what the agent would do is not done."""
        if isinstance(event, Report | EscalatedClaims):
            if event.sender not in self.own_hosts and event.sender not in self.routes.other_switches:
                return
            event = replace(event, claims=tuple(self._on_own_paths(event.claims)))
        self.agent.handle(event, now_ns)

    def _on_own_paths(self, claims: Iterable[Claim]) -> Iterable[Claim]:
        for claim in claims:
            with suppress(BadMessage):  # of a host that is not there any more
                yield claim._replace(path=self.paths.path(claim.flow))

    def taking_over(self, before: "Place") -> Iterable[Send]:
        """What other switches must know when this place is in charge. The parent decides about what was escalated anew:
        the new agent does not have its old decision. Children have the old agent's decisions, and get the new one's."""
        name, parent, arbitration = self.config.name, self._domain.parent, self.agent.arbitration
        escalated = before.agent.arbitration.escalated if before.agent.arbitration is not None else ()
        if escalated and parent is not None:
            yield Send(parent, EscalatedClaims(name, (), escalated))
        if arbitration is not None:
            for child in dict.fromkeys(arbitration.child_of.values()):
                below = [share for flow, share in arbitration.shares.items() if arbitration.child_of.get(flow) == child]
                if below:
                    yield Send(child, ShareUpdate(name, tuple(below)))
