"""Where a job comes to rest within its iteration."""

from paceline.flowcore.demand.profile import MOST_ODD, MOST_RESTS, SCATTERED_ITERATIONS, Profile
from paceline.flowcore.model.patterns import Role

NEXT = (Role.RING, "h1")
SIZES = {NEXT: 1000.0}


def iterate(profile: Profile, *rests: float) -> None:
    for sent in rests:
        profile.rested({NEXT: sent})
    profile.iteration_ended()


def stops(profile: Profile) -> list[float]:
    return [stop.sent_bytes[NEXT] for stop in profile.stops]


def test_a_rest_that_repeats_is_a_stop_until_it_is_missed_twice() -> None:
    profile = Profile(SIZES)
    iterate(profile, 300.0, 600.0)
    assert stops(profile) == [], "once may be chance"
    iterate(profile, 301.0, 600.0, 700.0)
    assert stops(profile) == [300.0, 600.0]
    iterate(profile, 300.0)
    assert stops(profile) == [300.0, 600.0], "missed once"
    iterate(profile, 300.0)
    assert stops(profile) == [300.0]


def test_a_burst_goes_to_the_next_stop_and_the_last_one_to_the_end() -> None:
    profile = Profile(SIZES)
    for _ in range(2):
        iterate(profile, 300.0, 600.0)
    first, second = profile.next_stop({NEXT: 0.0}), profile.next_stop({NEXT: 300.0})
    assert first is not None and first.sent_bytes[NEXT] == 300.0
    assert second is not None and second.sent_bytes[NEXT] == 600.0
    assert profile.next_stop({NEXT: 600.0}) is None


def test_rests_that_never_repeat_are_no_profile_and_chatter_is_none_either() -> None:
    profile = Profile(SIZES)
    for number in range(SCATTERED_ITERATIONS + 1):
        assert not profile.scattered
        iterate(profile, *(100.0 * rest + 17 * number for rest in range(1, MOST_ODD + 2)))
    assert profile.scattered
    iterate(profile)
    assert not profile.scattered
    for _ in range(SCATTERED_ITERATIONS):
        iterate(profile, *(4.0 * rest for rest in range(1, MOST_RESTS + 10)))
    assert profile.scattered


def test_a_lone_odd_rest_is_nothing() -> None:
    profile = Profile(SIZES)
    for number in range(3 * SCATTERED_ITERATIONS):
        iterate(profile, 100.0 + 37 * number)
    assert not profile.scattered and stops(profile) == []
