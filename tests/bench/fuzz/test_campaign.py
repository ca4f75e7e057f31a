"""Fuzzing: each target takes or refuses some thousands of mutants, and a campaign finds what does not."""

import random
from collections import Counter
from typing import ClassVar

import pytest

from bench.fuzz.campaign import Failure, run
from bench.fuzz.mutate import mutant, same_length
from bench.fuzz.registry import TARGETS

pytestmark = pytest.mark.slow

COUNTS = {"wire": 6000, "segments": 700, "control": 6000, "configuration": 400, "plugin": 10_000, "page": 2000}


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_but_refusals(name: str) -> None:
    done = run(TARGETS[name], COUNTS[name], seed=7)
    assert done.failures == []
    assert done.good and done.mutants >= COUNTS[name]
    assert sum(count for outcome, count in done.outcomes.items() if "taken" in outcome) > done.mutants / 100


class Brittle:
    """Raises at every thousandth, and keeps all it is given."""

    name: ClassVar[str] = "brittle"
    kept: ClassVar[list[bytes]] = []

    def __init__(self) -> None:
        self._fed = 0

    async def feed(self, draws: random.Random) -> Counter[str]:
        self._fed += 1
        self.kept.append(draws.randbytes(4000))
        if self._fed % 1000 == 0:
            raise KeyError(draws.random())
        return Counter({"taken": 1})

    async def close(self) -> None: ...


def test_a_failure_has_a_seed_that_finds_it_again() -> None:
    done = run(Brittle, 12_000, seed=3)
    assert [(failure.seed, failure.number) for failure in done.failures[:2]] == [(3, 999), (3, 1999)]
    assert (done.failures[-1].seed, done.mutants) == (4, 12_000)
    [again, *_] = run(Brittle, 1000, seed=4).failures
    assert again in done.failures and isinstance(again, Failure)


def test_memory_that_grows_is_a_failure() -> None:
    done = run(Brittle, 20_000, seed=1)
    assert done.grew_bytes > 24_000_000 and not done.good


def test_mutants_differ_and_repeat() -> None:
    corpus = [b"a good message", b"another one"]
    made = [mutant(random.Random(seed), corpus) for seed in range(200)]
    assert made == [mutant(random.Random(seed), corpus) for seed in range(200)]
    assert len(set(made)) > 150
    wrong = [same_length(random.Random(seed), bytes(64), 32) for seed in range(50)]
    assert all(len(one) == 64 and one[32:] == bytes(32) for one in wrong)
