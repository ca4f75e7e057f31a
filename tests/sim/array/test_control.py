"""Which control decides for which policy: hooks that a policy overrides are never ignored."""

from collections.abc import Iterable, Mapping, Sequence

import pytest

from paceline.flowcore.allocation.arbiters import Contender, strict_priority
from paceline.flowcore.host.flow_state import FlowState
from paceline.flowcore.host.policy import HostContext, Policy
from paceline.flowcore.model.scenario import SlotsSpec
from paceline.flowcore.model.topology import star
from paceline.flowcore.policy import POLICIES
from paceline.flowcore.policy.mlcc import Mlcc
from paceline.flowcore.policy.order import Fifo
from paceline.sim.array.agents import AgentControl
from paceline.sim.array.arbitrated import ArbitratedControl
from paceline.sim.array.compiled_control import CompiledControl
from paceline.sim.array.control import ControlContext
from paceline.sim.array.engine import ArraySimulation, control_for, in_agents
from paceline.sim.array.network import ArrayNetwork
from paceline.sim.array.no_control import NoControl
from paceline.sim.array.planned.control import PlannedControl
from paceline.sim.kernel.library import library

WITH_AN_ARBITER = ArbitratedControl if library() is None else CompiledControl


def control(policy: Policy) -> object:
    context = ControlContext(policy, SlotsSpec().clock(), ArrayNetwork(star(2, 10.0), None), 1, lambda when, what: None)
    return control_for(context)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_none_of_the_policies_needs_the_agents_where_there_is_c(name: str) -> None:
    unpaced = dict.fromkeys(["fair", "fair-penalty", "mltcp", "mltcp-4"], NoControl)
    planned = dict.fromkeys(["mlcc", "mlcc-open"], AgentControl if library() is None else PlannedControl)
    expected = {**unpaced, **planned, "ccml": ArbitratedControl}.get(name, WITH_AN_ARBITER)
    assert type(control(POLICIES[name]())) is expected


def test_a_policy_that_overrides_something_of_mlcc_runs_in_the_agents() -> None:
    class Bold(Mlcc):
        def _plan(self, host: HostContext, flow: FlowState, committed_bps: list[float], now_ns: int) -> None:
            flow.plan_bps = (host.nic_bps,)

    assert type(control(Bold())) is AgentControl
    assert in_agents(Bold(), cross_traffic=False)


def test_a_policy_with_an_arbiter_of_its_own_is_not_left_to_c() -> None:
    class Reversed(Fifo):
        @staticmethod
        def arbiter(contenders: Sequence[Contender], capacity_bps: Mapping[str, float]) -> list[float]:
            return strict_priority(contenders[::-1], capacity_bps)[::-1]

    assert type(control(Reversed())) is ArbitratedControl


def test_a_policy_that_overrides_a_hook_runs_in_the_agents() -> None:
    class Patient(Fifo):
        def on_ready(self, host: HostContext, flow: FlowState, now_ns: int) -> None:
            """Reports with the next slot."""

    assert type(control(Patient())) is AgentControl


def test_a_policy_that_plans_in_its_own_way_runs_in_the_agents() -> None:
    """Not a hook by name, but nothing that the array engine would ask for."""

    class Planless(Fifo):
        def _plan(self, host: HostContext, flows: Iterable[FlowState], now_ns: int) -> None:
            """Makes no plans."""

    assert type(control(Planless())) is AgentControl


def test_a_policy_without_an_arbiter_runs_in_the_agents() -> None:
    class Unarbitrated(Fifo):
        arbiter = None

    assert type(control(Unarbitrated())) is AgentControl


@pytest.mark.parametrize(("name", "expected"), [("paceline", AgentControl), ("srpt", WITH_AN_ARBITER)])
def test_beside_cross_traffic_a_policy_that_yields_to_it_runs_in_the_agents(name: str, expected: type) -> None:
    simulation = ArraySimulation(star(2, 10.0), SlotsSpec().clock(), name, cross_traffic=True)
    assert type(simulation.control) is expected
