"""What a switch needs of a policy, and the arbitration that it makes of it."""

from collections.abc import Mapping
from typing import Protocol

from paceline.flowcore.allocation.arbiters import Arbiter
from paceline.flowcore.allocation.shifts.timetable import Timetable
from paceline.flowcore.detect.cross_traffic import CrossTrafficDetector
from paceline.flowcore.model.background import YIELD
from paceline.flowcore.model.domain import Domain
from paceline.flowcore.switch.arbitration import Arbitration
from paceline.flowcore.switch.ledger import Ledger


class SwitchPolicy(Protocol):
    @property
    def arbiter(self) -> Arbiter | None: ...

    @property
    def yields_to_cross_traffic(self) -> bool: ...

    @property
    def keeps_ledger(self) -> bool: ...

    @property
    def leaves_uncontended(self) -> bool: ...

    def timetable(self, capacity_bps: Mapping[str, float]) -> Timetable | None: ...


def new_arbitration(policy: SwitchPolicy, domain: Domain, slot_ns: int, background: str) -> Arbitration | None:
    """None where the policy has no arbiter: its flows live by their plans."""
    if policy.arbiter is None:
        return None
    detector = CrossTrafficDetector(domain.scope_bps, slot_ns, weighs=background != YIELD)
    cross_traffic = detector if policy.yields_to_cross_traffic else None
    ledger = Ledger(slot_ns) if policy.keeps_ledger else None
    # A host on its own has no times: another host of the same job would have others.
    timetable = policy.timetable(domain.scope_bps) if domain.sees_arrivals else None
    settings = (cross_traffic, ledger, background, timetable)
    return Arbitration(domain.scope_bps, policy.arbiter, domain.table_bps, *settings)
