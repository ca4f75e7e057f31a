"""The compiled steps and those in numpy are the same, to the last bit: sharing, HTB, and whole runs of random jobs."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.flowcore.allocation.aggressiveness import PAPER, Aggressiveness, piece_bytes
from paceline.flowcore.model.scenario import SlotsSpec
from paceline.sim.array import network as array_network
from paceline.sim.array.engine import ArraySimulation, run_scenario
from paceline.sim.jobs import TrainingJob
from paceline.sim.kernel.build import FOLDER
from paceline.sim.kernel.feeds import Feeds
from paceline.sim.kernel.flow_table import NetworkTable
from paceline.sim.kernel.library import Network, library
from paceline.sim.kernel.sharing import htb, max_min
from paceline.sim.kernel.steps import NumpySteps
from paceline.sim.kernel.steps_in_c import CompiledSteps
from paceline.sim.mixes import random_mix

pytestmark = pytest.mark.skipif(library() is None, reason="no C compiler")

LINKS, HOPS = 6, 4
rates = st.one_of(st.just(0.0), st.floats(0.1, 20.0), st.just(np.inf))
capacities = st.lists(st.floats(0.5, 10.0), min_size=LINKS, max_size=LINKS)
paths = st.lists(st.integers(0, LINKS - 1), min_size=1, max_size=HOPS, unique=True)


def compiled(capacity: list[float]) -> CompiledSteps:
    found = library()
    assert found is not None
    return CompiledSteps(NetworkTable(np.array([*capacity, np.inf]), None), found)


def test_python_knows_the_struct_as_c_has_it() -> None:
    body = re.sub(r"/\*.*?\*/", "", (FOLDER / "network.h").read_text(), flags=re.DOTALL)
    (struct,) = re.findall(r"struct network \{(.*?)\};", body, flags=re.DOTALL)
    declared = [name.strip(" *") for line in re.findall(r"(?:\w+) ([^;]+);", struct) for name in line.split(",")]
    assert declared == [name for name, _ in Network._fields_]


weights = st.one_of(st.just(1.0), st.floats(0.25, 4.25), st.floats(0.01, 100.0))


@given(st.lists(st.tuples(paths, rates, weights), min_size=1, max_size=25), capacities, st.booleans())
def test_links_are_shared_alike(
    problem: list[tuple[list[int], float, float]], capacity: list[float], weighted: bool
) -> None:
    steps = compiled(capacity)
    padded = np.array([path + [LINKS] * (HOPS - len(path)) for path, _, _ in problem])
    limits = np.array([min(limit, 100.0) for _, limit, _ in problem])
    weight = np.array([flow[2] for flow in problem]) if weighted else None
    found = np.zeros(len(problem))
    arrays = (padded, limits, weight, steps.table.capacity_bps, found)
    columns = (None if array is None else array.ctypes.data for array in arrays)
    steps._library.share_links(steps._address, len(problem), HOPS, *columns)
    assert found.tolist() == max_min(padded, limits, steps.table.capacity_bps, weight).tolist()


@given(st.lists(st.tuples(st.integers(0, LINKS - 1), st.floats(0.0, 20.0), rates), min_size=1, max_size=20), capacities)
def test_nics_are_shared_alike(leaves: list[tuple[int, float, float]], capacity: list[float]) -> None:
    steps = compiled(capacity)
    nic = np.array([leaf[0] for leaf in leaves])
    wanted, firm = (np.array([leaf[place] for leaf in leaves]) for place in (1, 2))
    found = np.zeros(len(leaves))
    columns = (array.ctypes.data for array in (nic, wanted, firm, steps.table.capacity_bps, found))
    steps._library.share_nics(steps._address, len(leaves), *columns)
    assert found.tolist() == htb(wanted, firm, nic, steps.table.capacity_bps).tolist()


def ends_ns(number: int, policy: str, step_ms: float | None) -> list[list[int]]:
    mix = random_mix(number, seed=3, duration_s=1.5)
    if step_ms is None:
        return [job.iteration_ends_ns for job in run_scenario(mix, policy, 1)[1]]
    simulation = ArraySimulation(mix.topology, SlotsSpec().clock(), policy, step_ms=step_ms)
    jobs = [TrainingJob(spec, 1) for spec in mix.jobs]
    for job in jobs:
        simulation.start(job)
    simulation.run(15 * 10**8)
    return [job.iteration_ends_ns for job in jobs]


Flow = tuple[list[int], float, float, bool, float, float]  # path, firm, ceiling, paced, bytes, mark as a part of those
flows = st.tuples(paths, rates, rates, st.booleans(), st.floats(1.0, 1e7), st.sampled_from([0.0, 0.5, 0.9, np.inf]))


def table_of(problem: list[Flow], step_ns: int | None, weights: Aggressiveness | None = None) -> NetworkTable:
    """Of flows that all send, every third after the one before it; those without a guarantee have weights."""
    table = NetworkTable(np.array([1e9] * LINKS + [np.inf]), step_ns, aggressiveness=weights)
    table.grow(table.rows, HOPS)
    for row, (path, firm, ceiling, paced, size_bytes, mark) in enumerate(problem):
        table.path[row, : len(path)] = path
        table.firm[row], table.ceiling[row], table.paced[row] = firm * 1e8, ceiling * 1e8, paced
        table.goal[row], table.window[row], table.live[row] = size_bytes, size_bytes / 7, True
        table.mark[row], table.size[row] = mark * size_bytes, size_bytes
        table.piece[row] = 0.0 if firm or weights is None else piece_bytes(size_bytes)
    fed = np.arange(2, len(problem), 3)
    table.put_feeds("job", Feeds(fed - 1, np.ones(len(fed), np.int64), fed, np.arange(len(fed))))
    return table


waits_ns = st.integers(0, 20_000_000)


@given(
    st.lists(flows, min_size=1, max_size=12),
    st.sampled_from([None, 1_000_000, 5_000_000]),
    st.lists(st.tuples(waits_ns, waits_ns), min_size=1, max_size=8),
    st.sampled_from([None, PAPER]),
)
def test_steps_are_the_same(
    problem: list[Flow], step_ns: int | None, waits: list[tuple[int, int]], weights: Aggressiveness | None
) -> None:
    found = library()
    assert found is not None
    one = NumpySteps(table_of(problem, step_ns, weights))
    other = CompiledSteps(table_of(problem, step_ns, weights), found)
    for event_ns, control_ns in waits:
        until = (one.now_ns + event_ns, one.now_ns + control_ns, one.now_ns + 15_000_000)
        assert other.run(*until) == one.run(*until)
        assert (other.now_ns, other.steps, other.flow_steps) == (one.now_ns, one.steps, one.flow_steps)
        for name in ("rate", "sent", "mark", "live"):
            assert getattr(other.table, name).tolist() == getattr(one.table, name).tolist()


def test_a_flow_that_comes_to_its_mark_is_told_once_and_at_that_time() -> None:
    found = library()
    assert found is not None
    half_way: list[Flow] = [([0], 0.0, 20.0, False, 1e6, 0.5)]
    for steps in (NumpySteps(table_of(half_way, None)), CompiledSteps(table_of(half_way, None), found)):
        events = steps.run(10**9, 10**9, 10**9)
        assert (events.ended, events.marked) == ([], [0])
        assert steps.table.sent[0] == pytest.approx(0.5e6, abs=1.0)  # a nanosecond is an eighth of a byte here
        assert steps.run(10**9, 10**9, 10**9).marked == []


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(
    st.integers(0, 1000),
    st.sampled_from(["fair", "fair-penalty", "mltcp", "mcs", "ccml", "paceline"]),
    st.sampled_from([None, 1.0, 5.0]),
)
def test_runs_are_the_same(number: int, policy: str, step_ms: float | None) -> None:
    found = ends_ns(number, policy, step_ms)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(array_network, "library", lambda: None)
        assert found == ends_ns(number, policy, step_ms)
