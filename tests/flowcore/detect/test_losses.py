"""Which path is lossy, and which only meets a full queue now and then."""

from paceline.flowcore.detect.losses import LOSSY, READ_BYTES, Losses


def judged(*again: float) -> list[bool]:
    """After each reading, in which so many times the limit was sent again."""
    losses, acked_bytes, again_bytes, said = Losses(), 0, 0, []
    for times in again:
        acked_bytes += READ_BYTES
        again_bytes += round(times * LOSSY * READ_BYTES)
        said.append(losses.look(acked_bytes, again_bytes))
    return said


def test_a_path_that_loses_packets_in_every_reading_is_lossy_until_none_does() -> None:
    assert judged(1, 2, 1, 1, 0.9, 0, 0.5, 0) == [False] * 3 + [True] * 4 + [False]


def test_a_queue_that_overflows_now_and_then_is_no_lossy_path() -> None:
    assert not any(judged(*(9, 9, 9, 0.5) * 10))


def test_too_little_sent_says_nothing() -> None:
    losses = Losses()
    assert not any(losses.look(sent, sent) for sent in (READ_BYTES // 4, READ_BYTES // 2, READ_BYTES - 1))
    assert [losses.look(times * READ_BYTES, times * READ_BYTES) for times in (1, 2, 3, 4)] == [False] * 3 + [True]
    assert losses.look(5 * READ_BYTES - 1, 4 * READ_BYTES), "as before"
