"""Arrays of jobs progress and are limited as one job is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.host.progress import JobProgress, advanced_paces
from paceline.flowcore.policy.arbitrated import enforced, enforced_ceilings, too_short, too_short_many


@given(st.floats(0.2, 1.0), st.integers(1, 10**9), st.floats(0.0, 1.0), st.booleans(), st.floats(0.1, 10.0))
def test_paces(pace: float, elapsed_ns: int, sent_share: float, communicating: bool, weight: float) -> None:
    one = JobProgress(0, weight)
    one.compute_ns, one.alone_comm_ns, one.communicating, one._pace = 3e8, 2e8, communicating, pace
    alone_ns = one.alone_ns
    one.advance(elapsed_ns, sent_share)
    columns = [np.array([value]) for value in (pace, elapsed_ns, sent_share, alone_ns, 2e8, communicating, weight)]
    assert 1.0 / advanced_paces(*columns)[0] == pytest.approx(one.slowdown, rel=1e-12)


@given(st.floats(0.0, 1e9), st.integers(0, 10**8), st.floats(0.0, 1e10))
def test_limits(alone_comm_ns: float, rtt_ns: int, ceiling_bps: float) -> None:
    short = too_short(alone_comm_ns, rtt_ns)
    many = too_short_many(np.array([alone_comm_ns]), np.array([rtt_ns]))
    assert many.tolist() == [short]
    expected = enforced(1e6, ceiling_bps, 1e10, short)[1]
    assert enforced_ceilings(np.array([ceiling_bps]), np.array([1e10]), many).tolist() == [expected]
