"""Gates in the switch: who begins, who goes on, who waits."""

import pytest

from paceline.flowcore.allocation.arbiters import BEGUN, Contender
from paceline.flowcore.messages.reports import Bid
from paceline.flowcore.policy import HOLDING, policy_named

LINKS = {"up": 1e9, "down": 1e9, "elsewhere": 1e9}
S = 1e9


def job(name: str, urgency: float, remaining_s: float, *links: str) -> Contender:
    return Contender(name, Bid(urgency, S, remaining_s * S), dict.fromkeys(links or ("up", "down"), 1))


def shares(policy: str, *contenders: Contender) -> dict[str, float]:
    arbiter = policy_named(policy).arbiter
    assert arbiter is not None
    found = arbiter(contenders, LINKS)
    return {one.job: bps / 1e9 for one, bps in zip(contenders, found, strict=True)}


def test_one_at_a_time_the_least_first_and_what_has_begun_goes_on() -> None:
    long, short, begun = job("long", 0.3, 2.0), job("short", 0.6, 1.0), job("begun", BEGUN, 1.5)
    apart = job("apart", 0.1, 3.0, "elsewhere")
    assert shares("srsf1", long, short, apart) == {"long": 0.0, "short": 1.0, "apart": 1.0}
    assert shares("srsf1", long, short, begun) == {"long": 0.0, "short": 0.0, "begun": 1.0}


@pytest.mark.parametrize(("policy", "together"), [("srsf1", 1), ("srsf2", 2), ("srsf3", 3)])
def test_as_many_as_the_gate_lets(policy: str, together: int) -> None:
    found = shares(policy, *(job(name, 0.5, 1.0) for name in "abcd"))
    assert sorted(found.values(), reverse=True) == pytest.approx([1 / together] * together + [0.0] * (4 - together))


@pytest.mark.parametrize(("new_s", "begins"), [(0.1, True), (0.9, False)])
def test_adadual_lets_a_short_message_join_a_long_one(new_s: float, begins: bool) -> None:
    found = shares("adadual", job("old", BEGUN, 1.0), job("new", 0.5, new_s))
    assert found == ({"old": 0.5, "new": 0.5} if begins else {"old": 1.0, "new": 0.0})


def test_two_that_have_begun_are_not_stopped() -> None:
    assert shares("srsf1", job("a", BEGUN, 1.0), job("b", BEGUN, 1.0)) == {"a": 0.5, "b": 0.5}


def test_every_one_is_for_daemons() -> None:
    assert all(policy_named(name).name == name and not policy_named(name).simulated for name in HOLDING)
