"""Bad rows are taken out of a message, and what is left is what was sent without them."""

import math
import random

import pytest

from paceline.flowcore.messages.reports import Bid, Claim, Report, Withdrawal
from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.topology import star
from paceline.wire import control_pb2 as pb
from paceline.wire.codec import REPORT, BadMessage, FlowPaths

STAR = star(8, 1.0)
PATHS = FlowPaths(STAR)
ODD = (math.nan, math.inf, -math.inf, -1.0, 1.1e18, 1e300)
COLUMNS = ("size_bytes", "compute_ns", "remaining_ns", "sent_bytes", "planned_bytes", "promised_bytes", "weight")


def claims(count: int, choice: random.Random) -> list[Claim]:
    def one(job: int) -> Claim:
        flow = FlowId(f"{job}", "h0", f"h{1 + job % 7}", Role.RING)
        others = tuple(flow._replace(target=f"h{n}") for n in range(choice.randrange(3)))
        plan = (1e6,) * choice.randrange(4)
        return Claim(flow, PATHS.path(flow), 1e6, Bid(1.0, 2.0, 3.0), 4.0, 5.0, others, others[:1], plan, 6.0, 2.0)

    return [one(job) for job in range(count)]


@pytest.mark.parametrize("seed", range(30))
def test_the_rest_is_as_it_was(seed: int) -> None:
    choice = random.Random(seed)
    sent = claims(choice.randrange(1, 12), choice)
    gone = [Withdrawal(claim.flow, 1.0) for claim in sent]
    wire = REPORT.to_wire(Report("h0", 7, 100, tuple(sent), tuple(gone)))
    bad_claims, bad_gone = set(), set()
    for row, claim in enumerate(sent):
        match choice.randrange(6):
            case 0:
                getattr(wire.claims, choice.choice(COLUMNS))[row] = choice.choice(ODD)
            case 1 if claim.plan_bps:
                before = sum(len(one.plan_bps) for one in sent[:row])
                wire.claims.plan_bps[before + choice.randrange(len(claim.plan_bps))] = choice.choice(ODD)
            case 2:
                wire.claims.flow[row] = f"{row}/ring/h0>h99"
            case 3:
                wire.withdrawn_bytes[row] = choice.choice(ODD)
                bad_gone.add(row)
                continue
            case _:
                continue
        bad_claims.add(row)
    report, bad = REPORT.sift(pb.Report.FromString(wire.SerializeToString()), PATHS)
    assert report.claims == tuple(claim for row, claim in enumerate(sent) if row not in bad_claims)
    assert report.withdrawn == tuple(one for row, one in enumerate(gone) if row not in bad_gone)
    assert bool(bad) == bool(bad_claims | bad_gone)


def test_what_is_no_rows_fault_is_the_messages() -> None:
    wire = REPORT.to_wire(Report("h0", 7, 100, tuple(claims(3, random.Random(1)))))
    wire.claims.size_bytes[0] = -1.0
    wire.claims.urgency.append(1.0)
    with pytest.raises(BadMessage, match="shape"):
        REPORT.sift(wire, PATHS)
