"""Whatever a page has in it: open, a hold within its bound, or a rate within its bounds; in Python and C alike."""

import math
import struct
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nccl_shim.page.decision import OPEN, Answer, decide
from nccl_shim.page.hold import Hold, wait
from nccl_shim.page.layout import (
    ANY_PEER,
    BANK_HEAD,
    ENTRY,
    HEADER,
    LEAST_RATE,
    MOST_HOLD_NS,
    MOST_RATE,
    Entry,
    State,
    bank_at,
    checksum,
    peer_bytes,
)
from tests.nccl_shim.page.pages import NOW_NS, PEER, SLOT_NS, CHold, CPage, page

OTHER = peer_bytes("fd00::1")
HOSTILE_RATES = (0.0, -1.0, math.nan, math.inf, -math.inf, 1e300, MOST_RATE * 1.01, 5e-324)
moments = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.integers(NOW_NS - 10 * SLOT_NS, NOW_NS + 50 * SLOT_NS), st.just(NOW_NS)
)
rates = st.one_of(st.floats(allow_nan=True, allow_infinity=True, width=64), st.sampled_from(HOSTILE_RATES))
entries = st.lists(
    st.builds(
        Entry,
        st.sampled_from([PEER, OTHER, ANY_PEER]),
        st.one_of(st.sampled_from(State), st.integers(0, 2**32 - 1)),
        moments,
        rates,
    ),
    max_size=4,
)
pages = st.builds(
    page,
    entries,
    st.just(4),
    st.integers(0, 2**64 - 1),
    moments,
    st.one_of(st.just(SLOT_NS), st.integers(-(2**63), 2**63 - 1)),
    st.one_of(st.just(1), st.integers(0, 2**32 - 1)),
)


@pytest.fixture(scope="session")
def c_page(net_library: Path) -> CPage:
    return CPage(net_library)


def assert_within_bounds(found: Answer) -> None:
    match found.state:
        case State.HELD:
            assert NOW_NS < found.until_ns <= NOW_NS + MOST_HOLD_NS
        case State.ASK:
            assert NOW_NS < found.until_ns <= NOW_NS + MOST_HOLD_NS
        case State.RATE:
            assert LEAST_RATE <= found.rate <= MOST_RATE
        case _:
            assert (found.until_ns, found.rate) == (0, 0.0)


def test_what_a_good_page_says(c_page: CPage) -> None:
    told = [Entry(PEER, State.RATE, 0, 125e6), Entry(OTHER, State.HELD, NOW_NS + 5)]
    for reader in (decide, c_page.decide):
        assert reader(page(told), PEER, NOW_NS) == Answer(State.RATE, 0, 125e6, SLOT_NS)
        assert reader(page(told), OTHER, NOW_NS) == Answer(State.HELD, NOW_NS + 5, 0.0, SLOT_NS)
        assert reader(page(told), OTHER, NOW_NS + 5) == Answer(State.OPEN, slot_ns=SLOT_NS)
        assert reader(page(told), peer_bytes("10.0.0.3"), NOW_NS).state == State.OPEN
        for_all = [Entry(ANY_PEER, State.RATE, 0, 2e6), *told]
        assert reader(page(for_all), peer_bytes("10.0.0.3"), NOW_NS).rate == 2e6
        assert reader(page(for_all), PEER, NOW_NS).rate == 125e6


def test_an_old_heartbeat_is_no_page(c_page: CPage) -> None:
    for reader in (decide, c_page.decide):
        for age_slots, believed in ((5, True), (5.1, False), (-1, True), (-1.1, False)):
            found = reader(page(heartbeat_ns=NOW_NS - int(age_slots * SLOT_NS)), PEER, NOW_NS)
            assert (found != OPEN) == believed, age_slots


@pytest.mark.parametrize("rate", HOSTILE_RATES[:-1])
def test_a_rate_without_sense_is_open(c_page: CPage, rate: float) -> None:
    data = page([Entry(PEER, State.RATE, 0, rate)])
    assert decide(data, PEER, NOW_NS) == c_page.decide(data, PEER, NOW_NS) == Answer(State.OPEN, slot_ns=SLOT_NS)


def test_a_small_rate_is_the_floor_and_a_long_hold_the_bound(c_page: CPage) -> None:
    for reader in (decide, c_page.decide):
        assert reader(page([Entry(PEER, State.RATE, 0, 5e-324)]), PEER, NOW_NS).rate == LEAST_RATE
        assert reader(page([Entry(PEER, State.HELD, 2**62)]), PEER, NOW_NS).until_ns == NOW_NS + MOST_HOLD_NS
        assert reader(page([Entry(PEER, State.HELD, -(2**63))]), PEER, NOW_NS).state == State.OPEN


def test_every_bit_of_a_bank_is_checked(c_page: CPage) -> None:
    """A writer that was stopped in the middle, or two of them: no state of the page is a mixture."""
    good = page()
    at = bank_at(7, 4)
    for bit in range(8 * at, 8 * (at + BANK_HEAD.size + ENTRY.size)):
        torn = bytearray(good)
        torn[bit // 8] ^= 1 << bit % 8
        assert decide(bytes(torn), PEER, NOW_NS) == c_page.decide(bytes(torn), PEER, NOW_NS) == OPEN


def test_the_other_bank_may_be_half_written(c_page: CPage) -> None:
    half = bytearray(page())
    half[bank_at(8, 4) : bank_at(8, 4) + 20] = bytes(range(20))
    for reader in (decide, c_page.decide):
        assert reader(bytes(half), PEER, NOW_NS).rate == 125e6


@given(pages, st.sampled_from([PEER, OTHER, b"\x07" * 16]))
@settings(max_examples=100, deadline=None)
def test_both_readers_say_the_same_of_any_values(c_page: CPage, data: bytes, peer: bytes) -> None:
    found = decide(data, peer, NOW_NS)
    assert c_page.decide(data, peer, NOW_NS) == found
    assert_within_bounds(found)


@given(st.binary(max_size=600), st.integers(0, 600), st.booleans())
@example(b"", 0, True)
@settings(max_examples=100, deadline=None)
def test_both_readers_say_the_same_of_any_bytes(c_page: CPage, noise: bytes, where: int, cut: bool) -> None:
    good = page()
    data = good[:where] + noise + (b"" if cut else good[where + len(noise) :])
    found = decide(data, PEER, NOW_NS)
    assert c_page.decide(data, PEER, NOW_NS) == found
    assert_within_bounds(found)


def test_a_count_beyond_the_page_is_not_read(c_page: CPage) -> None:
    data = bytearray(page(capacity=4))
    at = bank_at(7, 4)
    for count in (5, 2**16, 2**32 - 1):
        BANK_HEAD.pack_into(data, at, 7, count, checksum(7, count, bytes(data[at + BANK_HEAD.size :])))
        assert decide(bytes(data), PEER, NOW_NS) == c_page.decide(bytes(data), PEER, NOW_NS) == OPEN
    struct.pack_into("<I", data, HEADER.size - 24, 2**31)  # capacity
    assert decide(bytes(data), PEER, NOW_NS) == c_page.decide(bytes(data), PEER, NOW_NS) == OPEN


steps = st.lists(
    st.tuples(
        st.integers(0, 900_000_000),
        st.sampled_from([State.OPEN, State.HELD, State.ASK]),
        st.integers(-100, 5_000_000_000),
    ),
    max_size=30,
)


@given(steps)
@settings(max_examples=100, deadline=None)
def test_no_hold_is_longer_than_its_bound(c_page: CPage, steps: list[tuple[int, State, int]]) -> None:
    """Whatever is written while a burst waits; and C waits as Python does."""
    hold, in_c, now_ns = Hold(), CHold(), NOW_NS
    began_ns: int | None = None
    bound_ns, named = 0, State.OPEN
    for passed_ns, state, ahead_ns in steps:
        now_ns += passed_ns
        entry = Entry(PEER, state, now_ns + ahead_ns)
        told = decide(page([entry], heartbeat_ns=now_ns), PEER, now_ns)
        left_ns = hold.remaining_ns(told, now_ns)
        assert left_ns == c_page.remaining_ns(in_c, told, now_ns)
        if left_ns == 0:
            began_ns, named = None, State.OPEN
            continue
        began_ns = now_ns if began_ns is None else began_ns
        if told.state != named:
            named, bound_ns = told.state, now_ns if told.state == State.ASK else told.until_ns
        bound_ns = min(bound_ns, began_ns + MOST_HOLD_NS - 2 * SLOT_NS)
        assert now_ns + left_ns <= bound_ns + 2 * SLOT_NS


def test_a_page_that_always_says_later_is_heard_once() -> None:
    clock = [NOW_NS]

    def sleep(seconds: float) -> None:
        clock[0] += max(1, round(seconds * 1e9))

    def later() -> Answer:
        return Answer(State.HELD, clock[0] + SLOT_NS, 0.0, SLOT_NS)

    hold = Hold()
    assert 3 * SLOT_NS <= wait(hold, later, lambda: clock[0], sleep) <= 3 * SLOT_NS + 1_000_000
    assert wait(hold, later, lambda: clock[0], sleep) == 0
    assert hold.remaining_ns(OPEN, clock[0]) == 0
    assert wait(hold, later, lambda: clock[0], sleep) > 0


def test_an_answer_is_waited_for_two_slots_and_then_a_turn() -> None:
    clock, told = [NOW_NS], [Entry(PEER, State.ASK)]

    def sleep(seconds: float) -> None:
        clock[0] += max(1, round(seconds * 1e9))
        if clock[0] >= answered_ns:
            told[0] = Entry(PEER, State.HELD, answered_ns + 10 * SLOT_NS)

    def look() -> Answer:
        return decide(page([told[0]], heartbeat_ns=clock[0]), PEER, clock[0])

    answered_ns, hold = 2**62, Hold()
    assert wait(hold, look, lambda: clock[0], sleep) == 2 * SLOT_NS and hold.spent
    clock[0] = NOW_NS
    answered_ns, hold = NOW_NS + SLOT_NS, Hold()
    assert wait(hold, look, lambda: clock[0], sleep) == pytest.approx(11 * SLOT_NS, abs=2_000_000) and not hold.spent


def test_a_hold_ends_with_its_turn_or_with_its_hostd() -> None:
    clock = [NOW_NS]

    def sleep(seconds: float) -> None:
        clock[0] += max(1, round(seconds * 1e9))

    def turn() -> Answer:
        return decide(page([Entry(PEER, State.HELD, NOW_NS + 2 * SLOT_NS)]), PEER, clock[0])

    assert 2 * SLOT_NS <= wait(Hold(), turn, lambda: clock[0], sleep) <= 2 * SLOT_NS + 1_000_000
    clock[0] = NOW_NS
    killed = page([Entry(PEER, State.HELD, NOW_NS + 20 * SLOT_NS)], heartbeat_ns=NOW_NS)
    waited_ns = wait(Hold(), lambda: decide(killed, PEER, clock[0]), lambda: clock[0], sleep)
    assert 5 * SLOT_NS <= waited_ns <= 6 * SLOT_NS
