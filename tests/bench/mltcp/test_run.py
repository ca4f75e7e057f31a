"""A run under MLTCP: its jobs' sockets are told what they carry."""

from collections.abc import Iterator

import pytest

from bench.jobs import tcp_control
from bench.jobs.control_names import control_named, require_kernel
from bench.jobs.fork_server import ForkServer
from bench.jobs.launch import fork_server_environment, modules_for
from bench.jobs.run import Conditions, run_once
from bench.mltcp.control import Iteration, Mltcp
from paceline.flowcore.allocation.aggressiveness import PAPER
from tests.bench.jobs.test_run import RING, scenario

pytestmark = pytest.mark.root


@pytest.fixture(autouse=True)
def gone_afterwards() -> Iterator[None]:
    """A command has the control for as long as it lives; these tests are one process."""
    yield
    tcp_control._in_kernel().close()
    tcp_control._in_kernel.cache_clear()


def test_every_data_socket_knows_its_part_of_an_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Iteration] = []
    tell = Mltcp.tell

    def remembered(mltcp: Mltcp, descriptor: int, iteration: Iteration) -> None:
        tell(mltcp, descriptor, iteration)
        told.append(iteration)

    monkeypatch.setattr(Mltcp, "tell", remembered)
    control, ring = control_named("mltcp"), scenario(RING)
    require_kernel([control])
    with ForkServer(sorted(modules_for(ring, "synthetic")), fork_server_environment()) as fork_server:
        run = run_once(ring, control, Conditions("synthetic", 1), fork_server)
    assert all(job.finished for job in run.jobs)
    assert {(one.compute_s, one.slope, one.intercept) for one in told} == {(0.1, *PAPER)}
    assert sum(one.size_bytes for one in told) == pytest.approx(3 * 8e6), "2 (n - 1)/n of 6 MB, on each of 3"
