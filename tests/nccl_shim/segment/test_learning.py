"""Bytes and time of an iteration, from the iteration counter alone."""

from statistics import median

from nccl_shim.segment.learning import IterationLearner
from nccl_shim.segment.snapshot import IterationCounter
from paceline.flowcore.detect.sizes import MOST_SAMPLES, SizeLearner

MS = 1_000_000


def counters(sizes: list[int], durations_ms: list[int] | None = None, tx_ratio: float = 1.0) -> list[IterationCounter]:
    total, now_ns, made = 0, 0, []
    for index, size in enumerate(sizes):
        duration_ns = (durations_ms[index] if durations_ms else 50) * MS
        total, now_ns = total + size, now_ns + duration_ns
        made.append(IterationCounter(index + 1, now_ns, total, int(total * tx_ratio), size, duration_ns))
    return made


def learn(observed: list[IterationCounter]) -> IterationLearner:
    learner = IterationLearner()
    for counter in observed:
        learner.observe(counter)
    return learner


def test_nothing_is_known_before_the_third_iteration() -> None:
    assert learn(counters([900, 500])).learned is None


def test_the_third_iteration_is_enough() -> None:
    learned = learn(counters([900, 700, 500])).learned
    assert (learned.bytes_per_iteration, learned.since_iteration, learned.changes) == (500, 3, 0)
    assert learned.iteration_ns == 50 * MS


def test_a_lone_odd_iteration_changes_nothing() -> None:
    learned = learn(counters([900, 700, 500, 500, 504, 500, 504, 500])).learned
    assert (learned.bytes_per_iteration, learned.changes, learned.steady) == (500, 0, True)


def test_a_new_size_seen_twice_is_learned() -> None:
    learned = learn(counters([900, 700, 500, 500, 640, 640])).learned
    assert (learned.bytes_per_iteration, learned.since_iteration, learned.changes) == (640, 6, 1)


def test_what_never_repeats_is_a_median_and_says_so() -> None:
    learned = learn(counters([9, 9, 100, 110, 120, 130, 140, 150])).learned
    assert not learned.steady and 110 <= learned.bytes_per_iteration <= 150


def test_steady_again_when_it_repeats() -> None:
    learned = learn(counters([9, 9, 100, 110, 120, 130, 140, 150, 77, 77])).learned
    assert (learned.steady, learned.bytes_per_iteration) == (True, 77)


def test_a_larger_batch_is_noticed_in_three_iterations() -> None:
    durations = [900, 80] + [50] * 8 + [80] * 3
    assert learn(counters([5] * 13, durations)).learned.iteration_ns == 80 * MS
    assert learn(counters([5] * 12, durations)).learned.iteration_ns == 50 * MS


def test_one_slow_iteration_is_not_a_change() -> None:
    assert learn(counters([5] * 11, [50] * 10 + [900])).learned.iteration_ns == 50 * MS


def test_skipped_and_repeated_polls_do_no_harm() -> None:
    every = counters([900, 700] + [500] * 20, tx_ratio=1.5)
    learned = learn([every[0], every[4], every[4], every[11], every[18], every[21]]).learned
    assert (learned.bytes_per_iteration, learned.changes, learned.tx_bytes_per_iteration) == (500, 0, 750)


def of_flows() -> SizeLearner[dict[str, float]]:
    """As a host learns the sizes of a job's flows: two within a percent are alike."""

    def alike(one: dict[str, float], other: dict[str, float]) -> bool:
        return one.keys() == other.keys() and all(abs(size - other[name]) <= 0.01 * size for name, size in one.items())

    return SizeLearner(alike, lambda samples: {"a": median(sample["a"] for sample in samples)})


def test_sizes_of_many_flows_at_once() -> None:
    learner = of_flows()
    assert learner.observe({"a": 100.0}) and learner.size == {"a": 100.0}
    assert not learner.observe({"a": 100.5}), "alike is not learned anew"
    assert not learner.observe({"a": 100.0, "b": 50.0})
    assert learner.observe({"a": 100.5, "b": 50.0}) and learner.size == {"a": 100.5, "b": 50.0} and learner.steady


def test_a_typical_size_holds_until_as_many_samples_disagree_again() -> None:
    learner = of_flows()
    learner.observe({"a": 100.0})
    learned = [learner.observe({"a": 200.0 + 10 * number}) for number in range(MOST_SAMPLES)]
    assert learned == [False] * (MOST_SAMPLES - 1) + [True]
    assert (learner.size, learner.steady) == ({"a": 220.0}, False)
    learner.forget_samples()
    assert not any(learner.observe({"a": 300.0 + 10 * number}) for number in range(MOST_SAMPLES - 1))
    assert learner.observe({"a": 900.0})
