"""paceline's other objective: jobs that end soon go first."""

import pytest

from paceline.flowcore.host.policy import JobState
from paceline.flowcore.host.progress import JobProgress
from paceline.flowcore.policy import policy_named


def urgency(policy: str, *, iterations: int, sent: float, waited_s: float = 0.0) -> float:
    progress = JobProgress(0, iterations=iterations)
    progress.compute_ns, progress.alone_comm_ns = 3e8, 2e8
    progress.compute_ended(round(3e8))
    progress.advance(round(3e8 + waited_s * 1e9), 0.0)
    return policy_named(policy).bid(JobState(progress, 1.0, 0, sent_iterations=sent)).urgency


def test_what_a_job_has_left_decides() -> None:
    assert urgency("paceline", iterations=100, sent=10.0) == urgency("paceline", iterations=20, sent=10.0)
    assert urgency("paceline:jct", iterations=100, sent=10.0) < urgency("paceline:jct", iterations=20, sent=10.0)


def test_of_a_job_that_does_not_say_it_what_it_has_done() -> None:
    assert urgency("paceline:jct", iterations=0, sent=10.0) == urgency("paceline:jct", iterations=20, sent=10.0)
    assert urgency("paceline:jct", iterations=0, sent=30.0) < urgency("paceline:jct", iterations=0, sent=3.0)


@pytest.mark.parametrize("sent", [0.0, 5.0, 99.0])
def test_it_never_bids_more_than_a_switch_believes(sent: float) -> None:
    for waited_s in (0.0, 1.0, 20.0):
        bids = [urgency(name, iterations=100, sent=sent, waited_s=waited_s) for name in ("paceline:jct", "paceline")]
        assert bids[0] <= bids[1]


def test_a_longer_job_that_waits_comes_first_in_the_end() -> None:
    short = urgency("paceline:jct", iterations=2, sent=1.0)
    assert urgency("paceline:jct", iterations=40, sent=1.0) < short
    assert urgency("paceline:jct", iterations=40, sent=1.0, waited_s=20.0) > short
