"""Which jobs the agent hears of."""

from hostd.admission import LEFT_OUT_NS, Admission
from hostd.config import parse_config
from hostd.monitor.users import Users
from paceline.flowcore.host.flow_state import JobFlows
from paceline.flowcore.host.progress import JobProgress
from paceline.flowcore.messages.events import JobJoined

CONFIG = parse_config('name = "h0"\nnic_gbps = 1.0\nmode = "enforce"\n[addresses]\nh0 = ["10.0.0.1"]\n', "hostd.toml")


def test_a_job_with_a_number_that_no_switch_takes_may_try_again() -> None:
    admission = Admission(CONFIG, Users(), {})
    admission.expelled["1/a"] = "it has counted 1e+20 of something"
    assert admission.waiting(["1/a"], 0) == []
    assert admission.passed([JobJoined("1/a", (), ())], 1) == []
    assert admission.waiting(["1/a"], LEFT_OUT_NS - 1) == []
    assert admission.waiting(["1/a"], LEFT_OUT_NS) == ["1/a"] and admission.expelled == {}
    assert admission.passed([JobJoined("1/a", (), ())], LEFT_OUT_NS) != []
    admission.expelled["1/a"] = "again"
    assert admission.waiting(["1/a"], LEFT_OUT_NS + 1) == []


def test_a_job_that_has_gone_is_forgotten() -> None:
    admission = Admission(CONFIG, Users(), {})
    admission.expelled["1/a"] = "it has counted 1e+20 of something"
    assert admission.waiting([], 0) == [] and admission.expelled == {}


def test_how_a_job_is_held_is_asked_when_it_joins() -> None:
    admission = Admission(CONFIG, Users(), {})
    admission.unstoppable = lambda job: job == "0/a"
    joined = [JobJoined("0/a", ()), JobJoined("0/b", ())]
    assert [event.unstoppable for event in admission.passed(joined, 0)] == [True, False]


def test_a_job_that_turns_out_to_be_held_another_way_joins_again() -> None:
    """Which backend reaches it is known when its sockets have been looked for, after it has joined."""
    joined = JobFlows(JobProgress(0))
    admission = Admission(CONFIG, Users(), {"0/a": joined})
    assert admission.otherwise() == set()
    admission.unstoppable = lambda job: True
    assert admission.otherwise() == {"0/a"}
