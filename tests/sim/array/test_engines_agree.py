"""The array engine against the agents: how long the same jobs take, under every policy.

What is compared, and how: paceline/sim/agreement/engines.py. Most single runs are the same to 0.1 %; some differ by
2 % (under `srpt` on mixed, with two seeds of eight).

mlcc is chaos where patterns mix and across racks, not a rule that differs: plans are made to end with their slot and
equal slots are filled in order, so the last digit of a sum decides whether a flow reports once more, and which slot it
takes. A test here shows it in the agents alone. So mlcc is held there to the first meetings: on the clos, three
iterations of each of many seeds are the same to 0.01 %; on the tree ties come with the first. After that only the mean
over many says anything: over 20 iterations and 16 seeds the ratio was 0.989 on the clos and 0.996 on the tree, single
runs 0.87 to 1.05.
"""

from pathlib import Path

import pytest

from paceline.flowcore.model.scenario import Scenario
from paceline.flowcore.policy import POLICIES
from paceline.sim.agreement.engines import AGREE, compared, in_reference, mean_jct_s, shortened
from paceline.sim.scenario_file import read_scenario

pytestmark = pytest.mark.slow

SCENARIOS = Path(__file__).parents[3] / "scenarios"
ITERATIONS, SEEDS = 6, (1, 2, 3, 4)
CHAOTIC = {("mixed", "mlcc"): 3, ("clos", "mlcc"): 2, ("tree", "mlcc"): 1}  # for how many iterations to look
UNEVEN = {("mixed", "mlcc"), ("mixed", "srpt"), ("clos", "mlcc"), ("tree", "mlcc")}  # few seeds of many differ
MANY_SEEDS = tuple(range(1, 9))


def scenario(name: str) -> Scenario:
    return read_scenario(SCENARIOS / f"{name}.toml")


ON_ONE_SWITCH, ACROSS = ["two-jobs", "three-hosts", "mixed"], ["clos", "tree"]
# Nothing of theirs depends on switches.
PEERS = {"crux", "mltcp"}
# mltcp-4 is mltcp with another slope, mcs-pipelined is srpt that sees less, mlcc-open runs where mlcc does.
LIKE_OTHERS = {"mltcp-4", "mcs-pipelined", "mlcc-open"}
CASES = [(name, policy) for name in ON_ONE_SWITCH for policy in sorted(POLICIES.keys() - LIKE_OTHERS)]
CASES += [(name, policy) for name in ACROSS for policy in sorted(POLICIES.keys() - PEERS - LIKE_OTHERS)]


@pytest.mark.parametrize(("name", "policy"), CASES)
def test_jobs_take_as_long_in_both_engines(name: str, policy: str) -> None:
    chaotic_after = CHAOTIC.get((name, policy))
    seeds = MANY_SEEDS if (name, policy) in UNEVEN else SEEDS
    found = compared(scenario(name), policy, seeds, chaotic_after or ITERATIONS)
    assert found.ratio == pytest.approx(1.0, abs=AGREE)


def test_mlcc_across_racks_is_chaos_in_the_agents_alone() -> None:
    """Models larger by a few billionths. Should this ever fail, hold mlcc to what the others are held to."""
    larger = (shortened(scenario("tree"), 12, part) for part in (0.0, 2e-9, 3e-9))
    times_s = [mean_jct_s(in_reference(one, "mlcc", 1)) for one in larger]
    assert max(times_s) / min(times_s) - 1.0 > AGREE
