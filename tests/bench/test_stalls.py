"""Stalls of a core: found in samples, and by real sleepers."""

import time

from bench.stalls import SLEEP_S, STALL_S, Sample, Stalls, watching_stalls

COUNTING_S = 20e-6


def samples(*, late_s: dict[int, float], slow: set[int]) -> list[Sample]:
    """A hundred sleeps; some end late, in some the counting takes ten times as long."""
    now_s, found = 1000.0, []
    for number in range(100):
        woke_s = now_s + SLEEP_S + late_s.get(number, 0.0)
        end_s = woke_s + (10 if number in slow else 1) * COUNTING_S
        found.append(Sample(now_s, woke_s, end_s))
        now_s = end_s
    return found


def test_a_core_that_stood_still_and_one_that_crawled() -> None:
    found = Stalls()
    still = samples(late_s={50: 0.030}, slow=set())
    found.add(still)
    found.add(samples(late_s={20: STALL_S / 2}, slow={80, 81, 82, 83, 90}))  # 90 is over before it is a stall
    (stood, crawled) = found.spans_s
    assert 0.030 < stood[1] - stood[0] < 0.040
    assert 4 * SLEEP_S < crawled[1] - crawled[0] < 5 * SLEEP_S + STALL_S
    assert 0.0 < found.percent < 10.0
    assert found.late_p99_ms < 30.0
    assert found.during(stood[0] + 0.010, stood[0] + 0.011) and found.during(0.0, 2000.0)
    assert not found.during(still[0].begin_s, stood[0]) and not found.during(stood[1], crawled[0])


def test_nothing_was_watched() -> None:
    assert (Stalls().percent, Stalls().late_p99_ms, Stalls().during(0.0, 1.0)) == (0.0, 0.0, False)


def test_real_sleepers() -> None:
    with watching_stalls() as found:
        time.sleep(0.2)
    assert len(found.late_ms) > 2
    assert found.seconds > 0.1
    assert max(found.late_ms) >= 0.0
