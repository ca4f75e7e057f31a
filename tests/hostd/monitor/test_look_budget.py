"""What looking may cost: beyond it jobs are looked at less often, and closely again when there is time."""

from hostd.monitor.look_budget import MOST_LOOKING, MOST_STRETCHED, PERIOD_NS, LookBudget
from hostd.monitor.poll_schedule import LOOK_NS
from tests.hostd.monitor.conftest import MS, OwnJob, Watched, joined


def test_looks_that_cost_too_much_become_fewer_and_come_back() -> None:
    budget = LookBudget()
    assert budget.look_ns == LOOK_NS
    for _ in range(20):  # 6 % of a core where it looks every 2 ms
        budget.spent(0.06 * LOOK_NS / budget.look_ns)
    assert budget.look_ns == 0.06 / MOST_LOOKING * LOOK_NS
    for _ in range(20):
        budget.spent(1.0)
    assert budget.look_ns == MOST_STRETCHED * LOOK_NS, "no later than that a burst is noticed"
    for _ in range(20):
        budget.spent(0.001)
    assert budget.look_ns == LOOK_NS


def test_what_looking_took_is_measured() -> None:
    budget = LookBudget()
    budget.update(0)
    with budget.spending():
        sum(range(100_000))
    budget.update(PERIOD_NS - 1)
    assert budget.look_ns == LOOK_NS, "not yet"
    budget.update(PERIOD_NS)
    assert budget.look_ns == LOOK_NS, "some milliseconds of half a second"
    with budget.spending():
        sum(range(3_000_000))
    budget.update(PERIOD_NS + PERIOD_NS)
    assert budget.look_ns > LOOK_NS


def test_a_monitor_keeps_to_it(job: OwnJob, watched: Watched) -> None:
    joined(job, watched)
    watched.monitor.budget.look_ns = 5 * LOOK_NS
    watched.monitor.budget.update = lambda now_ns: None  # type: ignore[method-assign]
    watched.step()
    due_ns = watched.monitor.jobs.popitem()[1].due_ns
    assert due_ns % (5 * LOOK_NS) == 0 and due_ns <= watched.now_ns + 100 * MS
