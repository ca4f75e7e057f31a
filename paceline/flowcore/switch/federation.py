"""The other switches on the paths of a ToR's flows: what they are asked, what they said last, which are silent.

A host talks to its own ToR only. The ToR forwards each claim to the other switches on the flow's path, where it
appears as one more reporting peer, and merges their grants with its own (messages/grants.py). A switch that stays
silent for a slot, or that the shell says is lost, is left out: claims are still forwarded to it, no report waits for it
any more, hosts are told, and the first message from it, or the shell's word that it has been found, ends this.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from typing import NamedTuple

from paceline.flowcore.messages.events import Effect, Send
from paceline.flowcore.messages.grants import merged, shifted
from paceline.flowcore.messages.reports import Claim, Feedback, Grant, Report, Withdrawal
from paceline.flowcore.model.domain import other_switches
from paceline.flowcore.model.patterns import FlowId

ENDS = 2  # links of a path: a whole one that leads from one ToR to another has more

PathOf = Callable[[FlowId], tuple[str, ...]]

MOST_FORMER = 1000  # flows that are remembered after they were forgotten


class Forwarded(NamedTuple):
    """A host's report, as far as it concerns the other switches on its flows' paths."""

    sends: Sequence[Effect]
    asked: Mapping[FlowId, frozenset[str]]  # the switches whose answer is awaited


NOTHING = Forwarded((), {})


class Federation:
    def __init__(self, name: str, keeper: Mapping[str, str]) -> None:
        self.silent: set[str] = set()  # switches that no report waits for
        self._name, self._keeper = name, keeper
        self._number = 0  # of the last reports forwarded
        self._others_of: dict[FlowId, tuple[str, ...]] = {}  # the other switches on the flow's path
        self._former: dict[FlowId, tuple[str, ...]] = {}  # of flows that were forgotten here
        self._passed_up: set[FlowId] = set()  # flows from elsewhere that the parent was told of
        self._grants: dict[FlowId, dict[str, tuple[int, Grant]]] = {}  # with the slot their numbers begin with

    def next_number(self, now_ns: int) -> int:
        """Higher than of all reports forwarded before, also after a restart: see messages/coalescing.py."""
        self._number = max(self._number + 1, now_ns)
        return self._number

    def forward(self, report: Report, number: int, slot: int, path_of: PathOf = lambda _: ()) -> Forwarded:
        """To each other switch one report, with the claims and withdrawals that concern its links. `path_of`: what
        claims said before of a flow without one."""
        # Plans are dated by the host's slot. A withdrawal has no date: from a host whose clock is late it must not come
        # too late for the next switch.
        first_slot = report.first_slot if report.claims else slot
        claims: dict[str, list[Claim]] = {}
        withdrawn: dict[str, list[Withdrawal]] = {}
        asked: dict[FlowId, frozenset[str]] = {}
        for withdrawal in report.withdrawn:
            told = self._others_of.get(withdrawal.flow) or self._former.get(withdrawal.flow, ())
            if withdrawal.left and not told:  # it may have had no claim lately
                told = other_switches(path_of(withdrawal.flow), self._keeper, self._name)
            for switch in told:
                withdrawn.setdefault(switch, []).append(withdrawal)
            self.drop(withdrawal.flow)
        for claim in report.claims:
            switches = self._others_of.get(claim.flow)
            if switches is None:
                switches = self._others_of[claim.flow] = other_switches(claim.path, self._keeper, self._name)
            for switch in switches:
                claims.setdefault(switch, []).append(claim)
            if awaited := frozenset(switches) - self.silent:
                asked[claim.flow] = awaited
        sends: list[Effect] = []
        for switch in dict.fromkeys([*claims, *withdrawn]):
            parts = tuple(claims.get(switch, ())), tuple(withdrawn.get(switch, ()))
            sends.append(Send(switch, Report(self._name, number, first_slot, *parts)))
        return Forwarded(sends, asked)

    def pass_up(self, report: Report, number: int, parent: str, passing: Container[FlowId]) -> list[Effect]:
        """Where a policy sees the ends of a path only (mcs), no switch between them is told of a claim: of flows from
        elsewhere that end below, the parent hears from here, since its groups may meet them. Only in the simulator:
        switchd's hosts claim whole paths, which tell every switch on them."""
        unknown = [claim for claim in report.claims if claim.flow in passing and len(claim.path) == ENDS]
        gone = [one for one in report.withdrawn if one.flow in self._passed_up]
        self._passed_up |= {claim.flow for claim in unknown}
        self._passed_up -= {one.flow for one in gone}
        if not unknown and not gone:
            return []
        return [Send(parent, Report(self._name, number, report.first_slot, tuple(unknown), tuple(gone)))]

    def heard(self, feedback: Feedback) -> list[FlowId]:
        """Keep what another switch said of flows that were forwarded to it; returns those flows."""
        known = [grant for grant in feedback.grants if grant.flow in self._others_of]
        for grant in known:
            self._grants.setdefault(grant.flow, {})[feedback.sender] = (feedback.first_slot, grant)
        return [grant.flow for grant in known]

    def merge(self, own: Grant, slot: int) -> Grant:
        """The grant of the whole path: this switch's own and what the other switches said last."""
        said = self._grants.get(own.flow)
        if not said:
            return own
        return merged(own, [shifted(grant, slot - first_slot) for first_slot, grant in said.values()])

    def drop(self, flow: FlowId) -> None:
        self._others_of.pop(flow, None)
        self._former.pop(flow, None)
        self._grants.pop(flow, None)

    def forget(self, flow: FlowId) -> None:
        """Other switches may still have it: they must hear of it if its host's next word is that it is through."""
        self._passed_up.discard(flow)
        if (switches := self._others_of.get(flow)) is not None:
            self.drop(flow)
            self._former[flow] = switches
            while len(self._former) > MOST_FORMER:
                del self._former[next(iter(self._former))]

    def forget_all(self) -> None:
        self._former, self._others_of = self._others_of, {}
        self._passed_up.clear()
        self._grants.clear()

    @property
    def missed(self) -> set[str]:
        """The silent switches that flows of now would have to ask."""
        return self.silent and {one for switches in self._others_of.values() for one in switches} & self.silent

    def lose(self, switches: set[str]) -> None:
        """Wait for these no longer, and forget what they said."""
        self.silent |= switches
        for said in self._grants.values():
            for switch in switches & said.keys():
                del said[switch]
