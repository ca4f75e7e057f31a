"""When the switch was asked and when it last spoke."""

from paceline.flowcore.host.answers import MOST_OPEN, AnswerClock


def test_the_round_trip_is_that_of_the_last_new_claim() -> None:
    answers = AnswerClock()
    answers.asked(1, 100, newcomers=True)
    answers.asked(2, 110, newcomers=False)
    answers.heard(2, 150)
    assert answers.rtt_ns == 0 and answers.heard_ns == 150
    answers.heard(1, 160)
    assert answers.rtt_ns == 60


def test_reports_of_one_time_are_answered_as_one() -> None:
    answers = AnswerClock()
    answers.asked(1, 100, newcomers=True)
    answers.asked(2, 100, newcomers=False)
    answers.heard(2, 160)
    assert answers.rtt_ns == 60


def test_one_late_answer_is_not_the_last_that_is_asked_for() -> None:
    """Bursts of 52 ms, shorter than a slot, ask for a turn where a round trip takes 6.5 ms, not where it takes 22."""
    answers = AnswerClock()
    answers.asked(1, 0, newcomers=True)
    answers.heard(1, 22_000_000)
    bursts = 0
    while answers.rtt_ns * 8 > 52_000_000:
        answers.not_asked()
        bursts += 1
    assert 10 < bursts < 30


def test_an_answer_that_comes_after_a_newer_claim_is_not_timed() -> None:
    answers = AnswerClock()
    answers.asked(1, 100, newcomers=True)
    answers.asked(2, 110, newcomers=True)
    answers.heard(1, 150)
    assert answers.rtt_ns == 0


def test_how_long_an_answer_took_is_known_once() -> None:
    answers = AnswerClock()
    answers.asked(1, 100, newcomers=False)
    assert answers.waited_ns(1, 130) == 30 and answers.waited_ns(2, 130) is None
    answers.heard(1, 130)
    assert answers.waited_ns(1, 140) is None


def test_questions_that_stay_open_are_bounded() -> None:
    answers = AnswerClock()
    for number in range(10 * MOST_OPEN):
        answers.asked(number, number, newcomers=False)
    assert answers.waited_ns(9 * MOST_OPEN - 1, 0) is None
    assert answers.waited_ns(10 * MOST_OPEN - 1, 10 * MOST_OPEN) == 1


def test_silence_counts_from_when_there_was_something_to_ask() -> None:
    answers = AnswerClock()
    assert answers.age_ns(50, 80) == 30
    answers.begin_asking(60)
    assert answers.age_ns(50, 80) == 20
    answers.heard(-1, 75)
    assert answers.age_ns(50, 80) == 5
    answers.clock_set(1_000)
    assert answers.age_ns(50, 1_080) == 5
