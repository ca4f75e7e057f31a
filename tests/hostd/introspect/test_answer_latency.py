"""From a question to its answer, and how old the last word is."""

from hostd.introspect.answer_latency import MOST_OPEN, Negotiation


def test_an_answer_is_timed_from_its_question() -> None:
    talk = Negotiation()
    talk.asked(1, 100)
    talk.asked(2, 150)
    assert talk.heard(2, 180) == 30
    assert talk.heard(1, 190) == 90, "it had to wait for other switches"
    assert talk.heard(1, 200) is None and talk.heard(-1, 200) is None, "a push answers nobody"


def test_questions_that_are_never_answered_are_forgotten() -> None:
    talk = Negotiation()
    for number in range(MOST_OPEN + 1):
        talk.asked(number, number)
    assert talk.heard(0, 1000) is None and talk.heard(1, 1000) == 999


def test_a_word_grows_old_only_while_somebody_waits_for_one() -> None:
    talk = Negotiation()
    assert talk.age_ns(asking_since_ns=400, now_ns=1000) == 600, "none yet"
    talk.heard(-1, 700)
    assert talk.age_ns(400, 1000) == 300
    assert talk.age_ns(950, 1000) == 50, "nobody asked before"
