"""A host's own link, divided between jobs and others as TCP would divide it: by connections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.flowcore.allocation.own_link import Want, divide
from paceline.flowcore.model.units import UNLIMITED

LINK_BPS = 1e9
RATES = st.one_of(st.just(UNLIMITED), st.floats(0.0, 2 * LINK_BPS))
WANTS = st.dictionaries(st.integers(0, 9), st.builds(Want, RATES, st.floats(0.5, 16.0)), max_size=6)


@given(st.integers(0, 50), WANTS)
def test_nothing_is_promised_twice(connections: int, wants: dict[int, Want]) -> None:
    others_bps, flows_bps = divide(LINK_BPS, connections, wants)
    assert flows_bps.keys() == wants.keys()
    assert others_bps + sum(flows_bps.values()) <= LINK_BPS * (1 + 1e-9)
    assert all(0.0 <= bps <= min(wants[key].rate_bps, LINK_BPS) for key, bps in flows_bps.items())


@given(st.integers(1, 50), WANTS)
def test_others_have_their_connections_part(connections: int, wants: dict[int, Want]) -> None:
    others_bps, _ = divide(LINK_BPS, connections, wants)
    weights = sum(want.weight for want in wants.values())
    assert others_bps == pytest.approx(LINK_BPS * connections / (connections + weights))


def test_who_stands_for_three_has_three_parts() -> None:
    assert divide(LINK_BPS, 1, {"a": Want(LINK_BPS, 3.0)}) == (LINK_BPS / 4, {"a": 3 * LINK_BPS / 4})


def test_flows_that_nobody_limits_are_like_others() -> None:
    others_bps, flows_bps = divide(LINK_BPS, 2, {"a": Want(UNLIMITED), "b": Want(UNLIMITED)})
    assert others_bps == LINK_BPS / 2 and flows_bps == {"a": LINK_BPS / 4, "b": LINK_BPS / 4}


def test_without_others_flows_keep_what_fits() -> None:
    assert divide(LINK_BPS, 0, {"a": Want(LINK_BPS)}) == (0.0, {"a": LINK_BPS})
