"""How much load cross traffic counts as on a host's own link."""

import pytest

from paceline.flowcore.detect.others import LOOKS, OthersLoad

LOOK_NS = 60_000_000


def noted(*looks: tuple[float, float]) -> OthersLoad:
    load = OthersLoad()
    for others_bps, theirs_bps in looks:
        load.note(LOOK_NS, others_bps, theirs_bps)
    return load


def test_nothing_was_looked_at() -> None:
    assert (OthersLoad().sent_bps, OthersLoad().load_bps) == (0.0, 0.0)


def test_it_counts_as_what_is_sent_and_no_more_than_is_theirs() -> None:
    load = noted((3e8, 5e8), (9e8, 5e8))
    assert (load.sent_bps, load.load_bps) == (pytest.approx(6e8), pytest.approx(4e8))


def test_one_look_in_which_they_rest_is_not_their_end() -> None:
    load = noted(*[(4e8, 5e8)] * (LOOKS - 1), (0.0, 5e8))
    assert load.load_bps == pytest.approx(4e8 * (LOOKS - 1) / LOOKS)


def test_when_they_have_ended_nothing_is_left() -> None:
    assert noted((9e8, 5e8), *[(0.0, 5e8)] * LOOKS).load_bps == 0.0


def test_a_longer_look_counts_for_more() -> None:
    load = OthersLoad()
    load.note(LOOK_NS, 0.0, 5e8)
    load.note(3 * LOOK_NS, 4e8, 5e8)
    assert load.load_bps == pytest.approx(3e8)
