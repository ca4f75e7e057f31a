"""crux: the job with the higher GPU intensity goes first, in both engines (Crux, §3.2)."""

import pytest

from paceline.flowcore.host.policy import JobState
from paceline.flowcore.host.progress import JobProgress
from paceline.flowcore.model.scenario import JobSpec, Pattern, Scenario, SlotsSpec
from paceline.flowcore.model.topology import star
from paceline.flowcore.policy.crux import Crux
from paceline.sim.array.engine import run_scenario
from paceline.sim.reference.engine import Simulation
from paceline.sim.run import mean_iteration_s


def progress(compute_ns: float, alone_comm_ns: float, bursts: int = 1) -> JobProgress:
    one = JobProgress(0)
    one.compute_ns, one.alone_comm_ns, one.bursts = compute_ns, alone_comm_ns, bursts
    return one


def test_intensity_is_computing_over_the_busiest_links_time() -> None:
    """Equation 2; what is left of a burst, and how slow the job was, do not matter."""
    bids = [Crux().bid(JobState(progress(3e8, 2e8), left, 7)).urgency for left in (1.0, 0.1)]
    assert bids == pytest.approx([1.5, 1.5])
    assert Crux().bid(JobState(progress(1e8, 2e8, bursts=3), 1.0, 7)).urgency == pytest.approx(1.5)
    assert Crux().bid(JobState(progress(0.0, 0.0), 1.0, 7)).urgency == 0.0


@pytest.mark.parametrize("engine", ["reference", "array"])
@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_the_more_intensive_job_hardly_notices_the_other(engine: str, names: tuple[str, str]) -> None:
    """0.4 s of computing for 0.2 s of sending, beside 0.2 s for 0.4 s: I = 2 and 0.5."""
    members = Pattern.ALLREDUCE, ("h0", "h1"), ()
    intensive = JobSpec(names[0], *members, 25.0, 0.4, None, 0.0, 0.03)
    talkative = JobSpec(names[1], *members, 50.0, 0.2, None, 0.0, 0.03)
    both = Scenario("two", 1, 12.0, SlotsSpec(), star(2, 1.0), (intensive, talkative), ())
    if engine == "array":
        simulation, jobs = run_scenario(both, "crux", 1)
        times_s = [mean_iteration_s(job, simulation.now_ns) for job in jobs]
    else:
        reference = Simulation(both, "crux", 1)
        reference.run()
        times_s = [mean_iteration_s(job, reference.now_ns) for job in reference.jobs.values()]
    assert times_s[0] == pytest.approx(0.6, rel=0.05)
    assert times_s[1] > 0.7
