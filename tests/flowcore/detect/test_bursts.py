"""Bursts found in counters: all of them, whole, and no rhythm where there is none."""

from collections.abc import Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.detect.bursts import ALIKE, LEAST_BURST_BYTES, QUIET_NS, BurstRhythm

MS = 1_000_000
MB = 1e6
sizes = st.floats(1 * MB, 500 * MB)
gaps_ms = st.integers(2 * QUIET_NS // MS, 500)
looks_ms = st.lists(st.integers(1, 8), min_size=1, max_size=20)


def counters(bursts: Sequence[tuple[float, int]], looks: Sequence[int]) -> Iterator[tuple[int, float, float]]:
    """(time, sent so far, sent in a burst that goes on) at every look; a burst takes 50 ms, then comes its gap."""
    now_ms, sent, number = 0, 0.0, 0
    for size, gap_ms in bursts:
        began_ms, before = now_ms, sent
        while now_ms < began_ms + 50:
            now_ms += looks[(number := number + 1) % len(looks)]
            sent = before + size * min(1.0, (now_ms - began_ms) / 50)
            yield now_ms * MS, sent, sent - before
        ended_ms, sent = now_ms, before + size
        while now_ms < ended_ms + gap_ms:
            now_ms += looks[(number := number + 1) % len(looks)]
            yield now_ms * MS, sent, 0.0


@given(st.lists(st.tuples(sizes, gaps_ms), min_size=1, max_size=6), looks_ms)
def test_every_burst_is_found_whole(bursts: list[tuple[float, int]], looks: list[int]) -> None:
    rhythm = BurstRhythm()
    rhythm.observe(0, 0.0, 0.0, 0.0)
    for now_ns, sent, of_burst in counters(bursts, looks):
        rhythm.observe(now_ns, sent, 0.0, 0.0)
        assert rhythm.sending or of_burst < LEAST_BURST_BYTES
    if not rhythm.regular:
        assert rhythm.bursts == len(bursts) and not rhythm.sending


@given(sizes, gaps_ms, looks_ms)
def test_equal_bursts_make_a_rhythm_and_an_odd_one_ends_it(size: float, gap_ms: int, looks: list[int]) -> None:
    rhythm, seen = BurstRhythm(), []
    rhythm.observe(0, 0.0, 0.0, 0.0)
    for now_ns, sent, _ in counters([(size, gap_ms)] * (ALIKE + 1) + [(2 * size, gap_ms)], looks):
        rhythm.observe(now_ns, sent, 0.0, 0.0)
        seen.append((rhythm.bursts, rhythm.regular))
        assert (rhythm.period_ns is not None) == rhythm.regular
        assert rhythm.period_ns is None or abs(rhythm.period_ns - (50 + gap_ms) * MS) <= 16 * MS, "two looks"
    assert all(regular == (ALIKE <= bursts <= ALIKE + 1) for bursts, regular in seen)
    assert seen[-1] == (ALIKE + 2, False)


@given(st.lists(st.tuples(st.integers(1, 200), st.floats(0, 1e8), st.floats(0, 1e8), st.floats(0, 1e6)), max_size=80))
def test_whatever_moves_bursts_are_counted_one_by_one(steps: list[tuple[int, float, float, float]]) -> None:
    rhythm, now_ns, sent, received, before = BurstRhythm(), 0, 0.0, 0.0, (0, False)
    for wait_ms, more, arrived, waiting in steps:
        now_ns, sent, received = now_ns + wait_ms * MS, sent + more, received + arrived
        rhythm.observe(now_ns, sent, received, waiting)
        assert not (rhythm.bursts > before[0] and waiting), "nothing ends while bytes wait"
        assert rhythm.bursts - before[0] in (0, 1)
        before = rhythm.bursts, rhythm.sending


def test_a_member_that_waits_for_another_is_still_in_its_burst() -> None:
    rhythm = BurstRhythm()
    rhythm.observe(0, 0.0, 0.0, 0.0)
    now_ns, sent = 0, 0.0
    for now_ns, sent, _ in counters([(10 * MB, 200)] * ALIKE, [4]):
        rhythm.observe(now_ns, sent, 0.0, 0.0)
    assert rhythm.regular and rhythm.bursts == ALIKE
    rhythm.observe(now_ns + 10 * MS, sent + 5 * MB, 0.0, 0.0)  # half of it, then nothing for a while
    rhythm.observe(now_ns + 150 * MS, sent + 5 * MB, 0.0, 0.0)
    assert rhythm.sending and rhythm.bursts == ALIKE
    rhythm.observe(now_ns + 160 * MS, sent + 10 * MB, 0.0, 0.0)
    rhythm.observe(now_ns + 160 * MS + QUIET_NS, sent + 10 * MB, 0.0, 0.0)
    assert not rhythm.sending and rhythm.bursts == ALIKE + 1 and rhythm.regular
    rhythm.observe(now_ns + 400 * MS, sent + 15 * MB, 0.0, 0.0)  # half of it, and that is all
    rhythm.observe(now_ns + 900 * MS, sent + 15 * MB, 0.0, 0.0)
    assert not rhythm.sending and rhythm.bursts == ALIKE + 2 and not rhythm.regular


def test_control_messages_are_no_burst() -> None:
    rhythm = BurstRhythm()
    for number in range(2000):
        told = 10_000.0 * (number // 13)
        rhythm.observe(number * 4 * MS, told, told, 0.0)
    assert rhythm.bursts == 0 and not rhythm.sending


def test_bytes_that_wait_begin_a_burst_before_they_move() -> None:
    rhythm = BurstRhythm()
    rhythm.observe(0, 0.0, 0.0, 0.0)
    rhythm.observe(1 * MS, 0.0, 0.0, 5 * MB)
    assert rhythm.sending
    rhythm.observe(1000 * MS, 0.0, 0.0, 5 * MB)
    assert rhythm.sending, "held back for a second, and nothing has ended"
