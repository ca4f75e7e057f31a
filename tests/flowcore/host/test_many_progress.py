"""Arrays of jobs progress and are limited as one job is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.host.progress import JobProgress, PaceColumns, credit_many
from paceline.flowcore.policy.arbitrated import enforced, enforced_ceilings, too_short, too_short_many


@given(
    st.floats(0.2, 1.0), st.integers(-5, 10**9), st.sampled_from([0.0, 1e3, 4e5, 2e6]), st.booleans(), st.booleans(),
    st.sampled_from([0.0, 3e8]), st.floats(0.1, 10.0),
)  # fmt: skip
def test_credit(
    pace: float,
    elapsed_ns: int,
    fresh_bytes: float,
    communicating: bool,
    stalled: bool,
    compute_ns: float,
    weight: float,
) -> None:
    one = JobProgress(100, weight)
    one.compute_ns, one.alone_comm_ns, one.communicating, one._pace = compute_ns, compute_ns / 2, communicating, pace
    fields = (pace, 100, one.bursts, one.compute_ns, one.alone_comm_ns, communicating, weight)
    one.credit(100 + elapsed_ns, fresh_bytes, 1e6, stalled=stalled)
    many = PaceColumns(*[np.array([value]) for value in fields])
    paces, updated_ns = credit_many(
        many, 100 + elapsed_ns, np.array([fresh_bytes]), np.array([1e6]), np.array([stalled])
    )
    assert 1.0 / paces[0] == pytest.approx(one.slowdown, rel=1e-12)
    assert updated_ns[0] == one._updated_ns


@given(st.floats(0.0, 1e9), st.integers(0, 10**8), st.floats(0.0, 1e10))
def test_limits(alone_comm_ns: float, rtt_ns: int, ceiling_bps: float) -> None:
    short = too_short(alone_comm_ns, rtt_ns)
    many = too_short_many(np.array([alone_comm_ns]), np.array([rtt_ns]))
    assert many.tolist() == [short]
    expected = enforced(1e6, ceiling_bps, 1e10, short)[1]
    assert enforced_ceilings(np.array([ceiling_bps]), np.array([1e10]), many).tolist() == [expected]
