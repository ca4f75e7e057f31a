"""The cycle of calls, from which iterations are guessed."""

from nccl_shim.hooks.cycle import CallCycle


def rounds(calls: str) -> list[int]:
    """Where rounds are over. A capital letter starts that call; a small one ends a call with a payload in its
    reply, a dot ends one without."""
    cycle, over = CallCycle(), []
    for position, letter in enumerate(calls):
        if cycle.started(letter) if letter.isupper() else cycle.finished(0 if letter == "." else 1):
            over.append(position)
    return over


def test_push_then_pull() -> None:
    assert rounds("A.Bb" * 4) == [4, 7, 11, 15], "the first when the next begins, then each with its last answer"


def test_two_servers_one_after_the_other() -> None:
    assert rounds("A.B.CcDd" * 3) == [8, 15, 23]


def test_chunks_that_overlap_are_one_round() -> None:
    once = "AAA.B.A.BB.bbb"
    assert rounds(once * 3) == [len(once), 2 * len(once) - 1, 3 * len(once) - 1]


def test_an_exchange_in_one_call() -> None:
    assert rounds("Aa" * 4) == [2, 3, 5, 7]


def test_a_round_with_fewer_calls_is_over_when_the_next_begins_and_one_with_more_is_over_once() -> None:
    assert rounds("A.B.CcDd" * 2 + "A.Cc" + "A.B.CcDd" * 2) == [8, 15, 20, 23, 35]


def test_pushes_alone_make_no_round() -> None:
    assert rounds("A." * 5) == []
