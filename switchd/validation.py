"""Validation: the checks between a message that is well formed and a message that the agent may act on.

    a host      reports its own flows only, about the coming slots, at most `max_flows` of them
    a switch    reports flows that begin below it, and only where a link of this switch is on their path;
                answers for flows that begin below this switch and cross a link of the sender's

A message that fails raises BadMessage before the agent has seen any of it. Where single claims of a host are at fault,
`sift` takes them out of its report, and `within_limits` out of what another switch passes on: that one counts
otherwise, and its other hosts have no part in it. Memory per host is bounded: the agent
remembers a flow for as long as it remembers its job, so every flow that a host has named of a job that is still
remembered counts against the host, and so do the flows that it named as upstream and downstream.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar, cast

from paceline.flowcore.messages.escalation import EscalatedClaims, ShareUpdate
from paceline.flowcore.messages.events import Message
from paceline.flowcore.messages.reports import Claim, Feedback, Report, Withdrawal
from paceline.flowcore.model.domain import Domain, above
from paceline.flowcore.model.patterns import FlowId
from paceline.flowcore.model.topology import Topology
from paceline.wire.codec import BadMessage

# A ring has one of each, a parameter server one per worker for each flow to a worker: 256 workers on one server.
MAX_DEPENDENCIES = 65_536

M = TypeVar("M", bound=Message)


class MessageValidator:
    def __init__(
        self,
        name: str,
        topology: Topology,
        domain: Domain,
        horizon: int,
        max_flows: int,
        remembered: Callable[[str], bool],
        path_of: Callable[[FlowId], tuple[str, ...]],
        arbitrates: bool,
    ) -> None:
        """`remembered`: whether the agent still knows a job. `path_of` raises BadMessage where there is none."""
        self._name = name
        self._domain = domain
        self._own_links = domain.table_bps.keys()
        self._horizon = horizon
        self._max_flows = max_flows
        self._parents = topology.parents.get(name, ())
        self._topology = topology
        self._remembered = remembered
        self._path_of = path_of
        self._arbitrates = arbitrates
        children = [switch for switch in topology.switches if name in topology.parents.get(switch, ())]
        self._hosts_below: dict[str, set[str]] = {child: set() for child in children}
        for host in topology.hosts:
            for switch in above(host, topology):
                if switch in self._hosts_below:
                    self._hosts_below[switch].add(host)
        self._named_flows: dict[str, dict[FlowId, int]] = {}  # by host: its flows, and how many dependencies each has

    def check_host_report(self, host: str, report: Report, slot: int) -> None:
        """A report on the host's own stream."""
        if report.sender != host:
            raise BadMessage("identity", f"{host} reports under the name {report.sender[:60]!r}")
        self._check_slots(report, slot)
        if len(report.withdrawn) > self._max_flows:
            raise BadMessage("flows", f"{len(report.withdrawn)} flows withdrawn, expected at most {self._max_flows}")
        self._check_claims(report.claims)
        for flow in self._flows_in(report):
            if flow.source != host:
                raise BadMessage("identity", f"{host} speaks for {flow}, which {flow.source} sends")
        self._count_flows(host, report.claims, report.withdrawn)

    def sift(self, host: str, report: Report) -> tuple[Report, list[BadMessage]]:
        """The report without the claims that another job's flows are named in, and without those flows that are more
        than the host may name: flows that were named before, and those that come first, stay."""
        refused: list[BadMessage] = []
        claims = [claim for claim in report.claims if not _names_another_job(claim)]
        if len(claims) < len(report.claims):
            refused.append(BadMessage("flow", f"{len(report.claims) - len(claims)} claims name flows of another job"))
        room = self._room(host)
        kept = [claim for claim in claims if _takes(room, claim)]
        withdrawn = [gone for gone in report.withdrawn if room.take(gone.flow)]
        if over := len(claims) - len(kept) + len(report.withdrawn) - len(withdrawn):
            refused.append(BadMessage("flows", f"{over} flows beyond the {self._max_flows} that {host} may name"))
        return replace(report, claims=tuple(kept), withdrawn=tuple(withdrawn)), refused

    def check_switch_message(self, sender: str, message: Message, slot: int) -> None:
        """A message from another switch; the stream or the switch that relayed it vouches for `sender`."""
        if message.sender != sender:
            raise BadMessage("identity", f"{sender} sends under the name {message.sender[:60]!r}")
        if isinstance(message, EscalatedClaims | ShareUpdate) and not self._arbitrates:
            raise BadMessage(
                "policy",
                f"{sender} sends shares or claims for arbitration, which the policy of {self._name} does not do",
            )
        match message:
            case Report():
                self._check_slots(message, slot)
                self._check_claims(message.claims)
                for flow in self._flows_in(message):
                    if self._topology.switch_of.get(flow.source) != sender:
                        raise BadMessage("identity", f"{sender} speaks for {flow}, which begins elsewhere")
                for claim in message.claims:
                    if self._own_links.isdisjoint(claim.path):
                        raise BadMessage("flow", f"{claim.flow} crosses no link of {self._name}")
            case EscalatedClaims():
                self._check_claims(message.claims)
                if sender not in self._hosts_below:
                    raise BadMessage("identity", f"{sender} is no child of {self._name}")
                for flow in (*(claim.flow for claim in message.claims), *message.withdrawn):
                    if flow.source not in self._hosts_below[sender]:
                        raise BadMessage("identity", f"{sender} speaks for {flow}, which begins elsewhere")
            case ShareUpdate():
                if sender not in self._parents:
                    raise BadMessage("identity", f"{sender} is no parent of {self._name}")
            case Feedback():
                if any(len(grant.load) != self._horizon for grant in message.grants):
                    raise BadMessage("horizon", f"grants of another horizon than {self._horizon} slots")
                for flow in (*(grant.flow for grant in message.grants), *message.contended):
                    if flow.source not in self._domain.hosts or not self._keeps_a_link_of(flow, sender):
                        raise BadMessage("identity", f"{sender} answers for {flow}, which it was not asked about")

    def within_limits(self, message: M) -> tuple[M, list[BadMessage]]:
        """A message that has been checked, without the flows that are more than their hosts may name."""
        if not isinstance(message, Report | EscalatedClaims):
            return message, []
        withdrawn = message.withdrawn if isinstance(message, Report) else ()
        try:
            self._count_flows_of_hosts(message.claims, withdrawn)
            return message, []
        except BadMessage:
            pass
        hosts = {claim.flow.source for claim in message.claims} | {one.flow.source for one in withdrawn}
        rooms = {host: self._room(host) for host in hosts}
        claims = tuple(claim for claim in message.claims if _takes(rooms[claim.flow.source], claim))
        gone = tuple(one for one in withdrawn if rooms[one.flow.source].take(one.flow))
        self._count_flows_of_hosts(claims, gone)
        over = len(message.claims) - len(claims) + len(withdrawn) - len(gone)
        refused = BadMessage("flows", f"{over} flows beyond the {self._max_flows} that a host may name")
        if isinstance(message, Report):
            return cast(M, replace(message, claims=claims, withdrawn=gone)), [refused]
        return cast(M, replace(message, claims=claims)), [refused]

    def _keeps_a_link_of(self, flow: FlowId, switch: str) -> bool:
        return any(self._domain.keeper[link] == switch for link in self._path_of(flow))

    def _flows_in(self, report: Report) -> list[FlowId]:
        return [claim.flow for claim in report.claims] + [gone.flow for gone in report.withdrawn]

    def _check_slots(self, report: Report, slot: int) -> None:
        if abs(report.first_slot - slot) > self._horizon:
            raise BadMessage("slot", f"a report about slot {report.first_slot}, and it is slot {slot}")

    def _check_claims(self, claims: tuple[Claim, ...]) -> None:
        for claim in claims:
            if len(claim.plan_bps) > self._horizon:
                raise BadMessage("horizon", f"a plan of {len(claim.plan_bps)} slots, expected {self._horizon}")
            if _names_another_job(claim):
                raise BadMessage("flow", f"{claim.flow} depends on a flow of another job")

    def _count_flows_of_hosts(self, claims: tuple[Claim, ...], withdrawn: tuple[Withdrawal, ...]) -> None:
        by_host: dict[str, tuple[list[Claim], list[Withdrawal]]] = {}
        for claim in claims:
            by_host.setdefault(claim.flow.source, ([], []))[0].append(claim)
        for gone in withdrawn:
            by_host.setdefault(gone.flow.source, ([], []))[1].append(gone)
        for host, (claimed, gone_flows) in by_host.items():
            self._count_flows(host, claimed, gone_flows)

    def _count_flows(self, host: str, claims: Iterable[Claim], withdrawn: Iterable[Withdrawal]) -> None:
        old = self._named_flows.get(host, {})
        named = dict.fromkeys([gone.flow for gone in withdrawn], 0)
        named.update({claim.flow: len(claim.upstream) + len(claim.downstream) for claim in claims})
        if named.items() <= old.items():  # as in the slot before
            return
        merged = old | named
        if self._too_many(merged):
            merged = {flow: n for flow, n in merged.items() if flow not in old or self._remembered(flow.job)}
        if self._too_many(merged):
            limits = f"{self._max_flows} flows and {MAX_DEPENDENCIES} that they depend on"
            raise BadMessage("flows", f"{host} named more than {limits}")
        self._named_flows[host] = merged

    def _room(self, host: str) -> "_Room":
        named = self._named_flows.get(host, {})
        return _Room({flow: n for flow, n in named.items() if self._remembered(flow.job)}, self._max_flows)

    def _too_many(self, flows: dict[FlowId, int]) -> bool:
        return len(flows) > self._max_flows or sum(flows.values()) > MAX_DEPENDENCIES


def _names_another_job(claim: Claim) -> bool:
    return any(other.job != claim.flow.job for other in (*claim.upstream, *claim.downstream))


def _takes(room: "_Room", claim: Claim) -> bool:
    return room.take(claim.flow, len(claim.upstream) + len(claim.downstream))


class _Room:
    """What a host may name besides the flows that it has named."""

    def __init__(self, named: dict[FlowId, int], max_flows: int) -> None:
        self._named, self._max_flows = named, max_flows
        self._dependencies = sum(named.values())

    def take(self, flow: FlowId, dependencies: int = 0) -> bool:
        more = max(0, dependencies - self._named.get(flow, 0))
        full = flow not in self._named and len(self._named) >= self._max_flows
        if full or self._dependencies + more > MAX_DEPENDENCIES:
            return False
        self._named[flow] = self._named.get(flow, 0) + more
        self._dependencies += more
        return True
