"""What a job may count: its owner asks, the operator allows."""

import pytest

from hostd.admission import Admission
from hostd.config import parse_config
from hostd.monitor.users import Users
from hostd.weights import WeightLimits
from paceline.flowcore.host.flow_state import JobFlows
from paceline.flowcore.host.progress import JobProgress
from paceline.flowcore.messages.events import HostEvent, JobJoined, JobLeft
from paceline.flowcore.model.fields import InputError

CONFIG = 'name = "h0"\nnic_gbps = 1.0\nmode = "enforce"\n[addresses]\nh0 = ["10.0.0.1"]\n'


def limits(weights: str = "") -> WeightLimits:
    return parse_config(CONFIG + weights, "hostd.toml").weights


def weight_of(event: HostEvent) -> float:
    assert isinstance(event, JobJoined)
    return event.weight


def test_by_default_a_job_may_count_less_and_not_more() -> None:
    found = [limits().allowed("1/a", asked, Users()) for asked in (4.0, 1.0, 0.5, 0.001, 1e6)]
    assert found == [1.0, 1.0, 0.5, 0.1, 1.0]


def test_the_operator_allows_a_tenant_more_and_decides_about_a_job() -> None:
    users = Users({1: "research"})
    allowed = limits(
        '[weights]\nmost = 0.5\ntenants = {research = 4.0}\njobs = {"research/urgent" = 8.0, "night" = 0.1}'
    )
    asked = {"research/a": 4.0, "2/a": 0.5, "research/urgent": 8.0, "2/urgent": 0.5, "2/night": 0.1}
    assert {job: allowed.allowed(job, 10.0, users) for job in asked} == asked


@pytest.mark.parametrize("line", ["most = 11", "most = 0", 'tenants = {a = "x"}', "jobs = {b = 0.01}", "least = 1"])
def test_no_such_weight(line: str) -> None:
    with pytest.raises(InputError, match="weights"):
        limits(f"[weights]\n{line}")


def test_the_agent_hears_what_is_allowed_and_a_reload_names_the_jobs_that_count_otherwise() -> None:
    joined: dict[str, JobFlows] = {}
    admission = Admission(parse_config(CONFIG, "hostd.toml"), Users(), joined)
    [event] = admission.passed([JobJoined("1/a", (), weight=4.0)], 0)
    assert weight_of(event) == 1.0
    joined["1/a"], joined["1/b"] = JobFlows(JobProgress(0)), JobFlows(JobProgress(0))
    more = parse_config(CONFIG + "[weights]\nmost = 3.0", "hostd.toml")
    assert admission.reload(more) == {"1/a"}
    [event] = admission.passed([JobJoined("1/a", (), weight=4.0)], 0)
    assert weight_of(event) == 3.0
    admission.passed([JobLeft("1/a")], 1)
    assert admission._asked == {}
