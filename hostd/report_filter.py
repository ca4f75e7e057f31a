"""What may leave this host for its switch. Law: what one job or one tenant does costs that job or tenant, and never the
stream of the host, which the switch would end.

    numbers    a claim with a number that no switch takes is not sent, and its job is left to TCP
    claims     of a tenant that has named its flows too often in a slot no more are sent in that slot
"""

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import replace

from paceline.flowcore.messages.reports import Claim, Report, Withdrawal
from paceline.flowcore.model.job_names import tenant_of
from paceline.flowcore.model.units import UNLIMITED
from paceline.wire.codec import LARGEST, MOST_URGENT


class ReportFilter:
    def __init__(self, most_claims: int) -> None:
        """`most_claims`: of a tenant in a slot."""
        self.most_claims = most_claims
        self.held_back: Counter[str] = Counter()  # claims and withdrawals, by tenant
        self._slot = 0
        self._sent: Counter[str] = Counter()  # in this slot, by tenant

    def passed(self, report: Report, slot: int, expelled: Container[str] = ()) -> Report | None:
        """What may be sent of it, without claims of those that were expelled; None: nothing."""
        if slot != self._slot:
            self._slot = slot
            self._sent.clear()
        claims = [one for one in report.claims if one.flow.job not in expelled and self._has_room(one)]
        withdrawn = [one for one in report.withdrawn if _is_said(one.volume_bytes) and self._has_room(one)]
        if len(claims) == len(report.claims) and len(withdrawn) == len(report.withdrawn):
            return report
        return replace(report, claims=tuple(claims), withdrawn=tuple(withdrawn)) if claims or withdrawn else None

    def _has_room(self, row: Claim | Withdrawal) -> bool:
        tenant = tenant_of(row.flow.job)
        if self._sent[tenant] >= self.most_claims:
            self.held_back[tenant] += 1
            return False
        self._sent[tenant] += 1
        return True


def _is_said(volume_bytes: float) -> bool:
    return 0.0 <= volume_bytes <= LARGEST or volume_bytes == UNLIMITED  # which is sent as LARGEST


def unsendable(reports: Iterable[Report]) -> dict[str, str]:
    """The jobs with a claim that no switch takes, and why."""
    return {claim.flow.job: _why(claim) for report in reports for claim in report.claims if not _fits(claim)}


def _numbers(claim: Claim) -> tuple[float, ...]:
    bid = claim.bid
    own = (claim.size_bytes, claim.sent_bytes, claim.planned_bytes, claim.promised_bytes)
    return (*own, bid.compute_ns, bid.remaining_ns, *claim.plan_bps)


def _fits(claim: Claim) -> bool:
    """All from 0 to LARGEST, which NaN is not; where none is negative, none is above the sum."""
    numbers = _numbers(claim)
    within = min(numbers) >= 0.0 and (sum(numbers) <= LARGEST or all(number <= LARGEST for number in numbers))
    return within and -MOST_URGENT <= claim.bid.urgency <= MOST_URGENT


def _why(claim: Claim) -> str:
    numbers = (*_numbers(claim), claim.bid.urgency)
    worst = next((number for number in numbers if not 0.0 <= number <= LARGEST), claim.bid.urgency)
    return f"it has counted {worst:g} of something, expected 0 to {LARGEST:g}"
