"""Shares that lie unused: when a claim is withdrawn, and when it may come back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.detect.stalls import LEAST_SHARE_BPS, LONGEST_WAIT_SLOTS, USED, StallDetector
from paceline.flowcore.messages.events import FLOOR_BPS

SLOT_NS = 60_000_000
GBPS = 1e9
SLOTFUL = GBPS * SLOT_NS / 8e9
FLOORFUL = FLOOR_BPS * SLOT_NS / 8e9


def after(*slots: tuple[float, float], busy_ns: int = SLOT_NS) -> StallDetector:
    """One slot after the other: promised bits per second, and bytes sent."""
    detector = StallDetector()
    for slot, (promised_bps, sent_bytes) in enumerate(slots):
        detector.observe(slot, SLOT_NS, busy_ns, promised_bps, sent_bytes)
    return detector


@pytest.mark.parametrize(
    ("promised_bps", "sent_bytes", "unused"),
    [
        (GBPS, 0.0, True),
        (GBPS, 0.9 * USED * SLOTFUL, True),
        (GBPS, 1.1 * USED * SLOTFUL, False),
        (GBPS, SLOTFUL, False),
        (FLOOR_BPS, 0.0, False),  # it is not its turn: the network holds it up
        (LEAST_SHARE_BPS, 0.0, True),
    ],
)
def test_a_share_is_unused_if_hardly_any_of_it_was_sent(promised_bps: float, sent_bytes: float, unused: bool) -> None:
    assert after((promised_bps, sent_bytes)).unused is unused


def test_a_flow_that_waited_for_part_of_the_slot_only_is_not_judged() -> None:
    assert not after((GBPS, 0.0), busy_ns=SLOT_NS // 3).unused


def test_a_stalled_flow_claims_again_when_bytes_move() -> None:
    detector = after((GBPS, 0.0))
    assert not detector.may_claim(1, SLOT_NS, 0.0)
    assert not detector.may_claim(1, SLOT_NS, 0.1 * FLOORFUL)
    assert detector.may_claim(1, SLOT_NS, FLOORFUL), "no more than the floor lets through: it may be all it got"


def test_a_new_burst_begins_without_suspicion_but_waits_as_long() -> None:
    detector = after(*[(GBPS, 0.0)] * 4)
    detector.begin_burst()
    assert not detector.unused
    assert not detector.may_claim(4, SLOT_NS, SLOTFUL)


def test_a_used_share_ends_the_waiting() -> None:
    detector = after(*[(GBPS, 0.0)] * 6, (GBPS, SLOTFUL), (GBPS, 0.0))
    assert detector.may_claim(8, SLOT_NS, FLOORFUL)


@given(st.integers(1, 12))
def test_a_flow_that_trickles_waits_twice_as_long_each_time(times: int) -> None:
    detector = after(*[(GBPS, 0.0)] * times)
    last = times - 1
    waits = min(LONGEST_WAIT_SLOTS, 2**last)
    assert not detector.may_claim(last + waits - 1, SLOT_NS, SLOTFUL)
    assert detector.may_claim(last + waits, SLOT_NS, SLOTFUL)
