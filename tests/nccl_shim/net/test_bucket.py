"""The token bucket on a clock of the test's: rates, what is saved while nothing is sent, and the bound of a wait."""

import ctypes
import random
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from nccl_shim.page.layout import ANY_PEER, Entry, State, peer_bytes
from nccl_shim.page.writer import PageWriter

MS, RATE, SLOT_NS = 1_000_000, 125e6, 1_000_000_000
START_NS = 10**15
NUMBERS = count(1)


class Bucket:
    """That of a peer; the page's heartbeat goes with the clock."""

    def __init__(self, library: ctypes.CDLL, page: PageWriter, peer: bytes) -> None:
        library.bucket_of.restype = ctypes.c_void_p
        self._c, self._page, self._peer = library, page, peer
        self._bucket = ctypes.c_void_p(library.bucket_of(peer))
        self.now_ns = 0

    def at(self, now_ns: int) -> "Bucket":
        self.now_ns = now_ns
        self._page.beat(now_ns)
        return self

    def pace(self, rate: float) -> None:
        self._page.write([Entry(self._peer, State.RATE, 0, rate)])

    def take(self, size: int) -> bool:
        return bool(self._c.bucket_take(self._bucket, ctypes.c_size_t(size), ctypes.c_int64(self.now_ns)))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for all: the library asks its environment once."""
    return tmp_path_factory.mktemp("pages")


@pytest.fixture
def page(pages: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PageWriter]:
    with PageWriter(pages, 1, 1, SLOT_NS) as writer:
        monkeypatch.setenv("PACELINE_PAGE", str(writer.path))
        yield writer


@pytest.fixture
def bucket(net_library: Path, page: PageWriter) -> Bucket:
    number = next(NUMBERS)
    made = Bucket(ctypes.CDLL(str(net_library)), page, peer_bytes(f"10.1.1.{number}"))
    made.pace(RATE)
    # Later than in all tests before: the library has one reader for its life.
    return made.at(START_NS + number * 10**13)


def sent_in(bucket: Bucket, seconds: float, draws: random.Random, late_ms: float) -> int:
    """Bytes that leave while something always waits, asked for at most so late."""
    until_ns, sent, size = bucket.now_ns + int(seconds * 1e9), 0, 0
    while bucket.now_ns < until_ns and sent < 2 * seconds * RATE:
        size = size or draws.choice((4096, 70_000, 524_288))
        if bucket.take(size):
            sent, size = sent + size, 0
        else:
            bucket.at(bucket.now_ns + draws.randrange(1, int(late_ms * MS)))
    return sent


@pytest.mark.parametrize("late_ms", [0.5, 5, 45])
def test_the_rate_is_exact_whatever_is_sent_and_however_late(bucket: Bucket, late_ms: float) -> None:
    sent = sent_in(bucket, 4, random.Random(3), late_ms)
    assert sent == pytest.approx(4 * RATE, rel=0.015)


def test_of_an_idle_time_some_ms_are_kept(bucket: Bucket) -> None:
    assert bucket.take(1)
    bucket.at(bucket.now_ns + 900 * MS)
    sent = 0
    while bucket.take(10_000) and sent < RATE:
        sent += 10_000
    assert sent == pytest.approx(RATE * 5e-3, abs=20_000)


def test_a_new_rate_counts_for_what_is_owed(bucket: Bucket) -> None:
    bucket.pace(1e6)
    assert bucket.take(1_000_000)  # a second at this rate
    assert not bucket.at(bucket.now_ns + 10 * MS).take(1)
    bucket.pace(1e9)
    bucket.at(bucket.now_ns + MS).take(1)
    assert bucket.at(bucket.now_ns + 2 * MS).take(1)


def test_no_send_waits_longer_than_the_bound(bucket: Bucket) -> None:
    bucket.pace(125_000)
    assert bucket.take(64 << 20)  # nine minutes at this rate
    asked_ns = bucket.now_ns
    while not bucket.take(1) and bucket.now_ns < asked_ns + SLOT_NS * 10:
        bucket.at(bucket.now_ns + 10 * MS)
    assert 1990 * MS <= bucket.now_ns - asked_ns <= 2010 * MS


def test_without_a_heartbeat_nothing_waits(bucket: Bucket) -> None:
    assert bucket.take(64 << 20)
    assert not bucket.at(bucket.now_ns + MS).take(1)
    bucket.now_ns += 5 * SLOT_NS + MS
    assert bucket.take(64 << 20) and bucket.take(64 << 20)


def test_nothing_is_free(bucket: Bucket) -> None:
    assert bucket.take(64 << 20)
    assert bucket.take(0), "an empty message says only that it is there"
    assert not bucket.take(1)


def test_a_process_waits_for_its_turn_once_though_its_peers_come_one_after_the_other(
    bucket: Bucket, page: PageWriter, net_library: Path
) -> None:
    """As in a tree, and between the rounds of an all-to-all: each peer had the whole bound to itself."""
    now_ns = bucket.now_ns
    peers = [Bucket(ctypes.CDLL(str(net_library)), page, peer_bytes(f"10.2.2.{number}")) for number in range(4)]
    for turn in range(2):
        page.write([Entry(ANY_PEER, State.HELD, now_ns + 10_000 * MS, 0.0)])
        now_ns += 10 * MS
        began_ns = now_ns
        for peer in peers:
            while not peer.at(now_ns).take(1):
                now_ns += 10 * MS
        assert 1900 * MS <= now_ns - began_ns <= 2100 * MS, f"turn {turn}"
        page.write([])
        now_ns += 10 * MS
        assert all(peer.at(now_ns).take(1) for peer in peers)
