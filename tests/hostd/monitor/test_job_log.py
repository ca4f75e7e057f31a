"""A job that comes or goes is one line, with job and flow."""

import pytest

from hostd.monitor.job_log import JobLog
from paceline.flowcore.messages.events import FlowReady, JobJoined, JobLeft
from paceline.flowcore.model.patterns import FlowId, FlowSpec, Role

FLOW = FlowId("bert", "h0", "h1", Role.RING)
JOINED = JobJoined("bert", (FlowSpec(FLOW, 2.5e7, (), 0.0),))


@pytest.mark.parametrize(("paced", "what"), [(True, "job joined"), (False, "job seen, and only watched")])
def test_joins_and_leaves(paced: bool, what: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    log = JobLog()
    log.note([JOINED, FlowReady(FLOW, 0)], lambda job: paced)
    log.note([JOINED, JobLeft("bert")], lambda job: paced)
    joined, left = caplog.records
    assert joined.getMessage() == what and left.getMessage() == "job left"
    assert vars(joined)["job"] == vars(left)["job"] == "bert"
    assert vars(joined)["flow"] == [str(FLOW)] and vars(joined)["size_mb"] == 25.0
