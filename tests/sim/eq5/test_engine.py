"""Ada-SRSF's model: eq. 5, AdaDUAL's test, the double credit, memory, and computing in turn."""

from random import Random

import pytest

from paceline.flowcore.allocation.gates.contention import Contention
from paceline.sim.eq5.engine import Cluster, Eq5Engine
from paceline.sim.eq5.exchanges import Rule
from paceline.sim.eq5.job import Eq5Job, Model
from paceline.sim.eq5.placement import PLACEMENTS

SECOND = Contention(a_s=0.5, b_s=1.0, eta_s=0.25)  # a byte a second
ONE_BYTE = Model(1.0, 10, 0.4, 0.6)
TEN_BYTES = Model(10.0, 10, 0.4, 0.6)
RULES = (Rule(1), Rule(2), Rule(3), Rule(), Rule(credited=True))


def pair(number: int, arrival_s: float, model: Model, iterations: int = 1) -> Eq5Job:
    return Eq5Job(number, arrival_s, 2, model, iterations)


def ends_s(rule: Rule, *jobs: Eq5Job, placement: str = "first-fit", gpus_per_server: int = 1) -> list[float]:
    """On two servers."""
    cluster = Cluster(2, gpus_per_server, 20, SECOND)
    Eq5Engine(cluster, placement, rule, Random(1)).run(jobs)
    return [job.end_s for job in jobs]


@pytest.mark.parametrize("rule", RULES)
def test_alone_an_iteration_is_computing_and_one_exchange(rule: Rule) -> None:
    assert ends_s(rule, pair(0, 3.0, ONE_BYTE, 4)) == [pytest.approx(3.0 + 4 * (1.0 + 0.5 + 1.0))]


def test_on_one_server_nothing_is_exchanged() -> None:
    assert ends_s(Rule(1), pair(0, 0.0, TEN_BYTES, 3), gpus_per_server=2) == [pytest.approx(3.0)]


def test_two_exchanges_share_and_lose_what_equation_5_says() -> None:
    """The first sends from 1.5 on, the second from 2.5: k is 2 from 2 on, when it is let in."""
    first, second = ends_s(Rule(2), pair(0, 0.0, TEN_BYTES), pair(1, 0.0, TEN_BYTES))
    together_s = 2 * 1.0 + 0.25  # per byte
    assert first == pytest.approx(2.0 + (10.0 - 0.5) * together_s)
    assert second == pytest.approx(first + 10.0 - (first - 2.5) / together_s)


def test_srsf1_lets_exchanges_take_turns() -> None:
    assert ends_s(Rule(1), pair(0, 0.0, TEN_BYTES), pair(1, 0.0, TEN_BYTES)) == [
        pytest.approx(11.5),
        pytest.approx(22.0),
    ]


@pytest.mark.parametrize(("model", "starts"), [(Model(3.4, 10, 0.4, 0.6), True), (Model(4.0, 10, 0.4, 0.6), False)])
def test_adadual_starts_beside_an_exchange_that_is_long_enough(model: Model, starts: bool) -> None:
    """b / (2(b + η)) is 0.4, and at 2 the first has 9.5 bytes left: 3.8 is the limit."""
    first, _ = ends_s(Rule(), pair(0, 0.0, TEN_BYTES), pair(1, 1.0, model))
    assert (first > 11.6) == starts


def test_an_exchange_that_is_examined_is_credited_twice() -> None:
    """From 2 on the second waits, and the first has 9.5 bytes left: it goes twice as fast."""
    assert ends_s(Rule(credited=True), pair(0, 0.0, TEN_BYTES), pair(1, 0.0, TEN_BYTES))[0] == pytest.approx(
        2.0 + 9.5 / 2
    )


def test_srsf_examines_and_credits_nothing() -> None:
    jobs = [[pair(0, 0.0, TEN_BYTES), pair(1, 0.0, TEN_BYTES)] for _ in range(2)]
    assert ends_s(Rule(1), *jobs[0]) == ends_s(Rule(1, credited=False), *jobs[1])


def test_a_gpu_takes_the_job_that_needs_least_and_ends_what_it_began() -> None:
    long, short = Eq5Job(0, 0.0, 1, ONE_BYTE, 3), Eq5Job(1, 0.1, 1, ONE_BYTE, 1)
    Eq5Engine(Cluster(1, 1, 20, SECOND), "first-fit", Rule(1), Random(1)).run([long, short])
    assert short.end_s == pytest.approx(0.4 + 1.0)  # after the forward task that was running
    assert long.end_s == pytest.approx(4.0)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_job_waits_for_memory(placement: str) -> None:
    """20 MB hold two jobs of 10."""
    jobs = [Eq5Job(number, 0.0, 1, ONE_BYTE, 2) for number in range(3)]
    ends = sorted(ends_s(Rule(1), *jobs, placement=placement))
    engine = Eq5Engine(Cluster(1, 1, 20, SECOND), placement, Rule(1), Random(1))
    again = [Eq5Job(number, 0.0, 1, ONE_BYTE, 2) for number in range(3)]
    engine.run(again)
    assert ends[-1] == pytest.approx(4.0)  # two GPUs, one of them with two jobs
    assert sorted(job.end_s for job in again) == pytest.approx([2.0, 4.0, 6.0])
    assert engine.gpus.free_mb == [20]
    assert engine.busy_s == pytest.approx(6.0)


def test_lwf_keeps_a_job_on_one_server_where_list_scheduling_spreads_it() -> None:
    def placed(placement: str) -> tuple[int, ...]:
        busy = [Eq5Job(0, 0.0, 1, ONE_BYTE, 50), Eq5Job(1, 0.1, 1, ONE_BYTE, 9), Eq5Job(2, 0.2, 1, ONE_BYTE, 9)]
        late = Eq5Job(3, 0.3, 2, ONE_BYTE, 1)
        Eq5Engine(Cluster(2, 2, 20, SECOND), placement, Rule(1), Random(1)).run([*busy, late])
        return late.servers

    assert len(placed("lwf")) == 1
    assert len(placed("list")) == 2
