"""`paceline whatif` against what comes: a few seconds of two jobs that fit if they take turns."""

import pytest

from bench.experiments.whatif import compare
from bench.jobs.run_store import RunStore
from paceline.flowcore.model.scenario import JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import star

pytestmark = pytest.mark.root


def test_what_is_predicted_in_observe_mode_comes_under_enforce() -> None:
    jobs = tuple(JobSpec(name, Pattern.ALLREDUCE, ("h0", "h1"), (), 1.25, 0.05, None, 0.0, 0.0) for name in ("a", "b"))
    scenario = Scenario("quick", 1, 2.0, SlotsSpec(20.0), star(2, 0.2), jobs, ())
    [found] = compare([scenario], "synthetic", 1, RunStore())
    assert found["slowdown_observe_by_hostd"] == pytest.approx(found["slowdown_observe"], rel=0.15)
    for job in found["jobs"]:
        assert job["alone_s_by_hostd"] == pytest.approx(job["alone_s"], rel=0.15)
        assert job["computing_s"] == pytest.approx(0.05, rel=0.1)
    assert abs(found["difference_points"]) < 20, "2 s tell little; `paceline bench whatif` takes its time"
    assert found["predicted_gain_percent"] == found["predicted_gain_percent_each"][0]
