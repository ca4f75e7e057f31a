"""Broken streams are opened again at once, refused ones less and less often."""

import grpc
import pytest

from paceline.wire.codec import BadMessage
from paceline.wire.retry import MOST_S, RETRY_S, Retry, is_refusal, may_be_a_certificate


def ended(code: grpc.StatusCode, details: str = "") -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)


EXPIRED = ended(grpc.StatusCode.UNAVAILABLE, "ipv4:10.0.0.1:7470: Secure read failed (Socket closed)")
GONE = ended(grpc.StatusCode.UNAVAILABLE, "failed to connect: Connection refused (111)")


def test_a_refused_peer_backs_off_and_a_broken_one_does_not() -> None:
    retry = Retry(spread=lambda: 1.0)
    delays = [retry.delay_s(ended(grpc.StatusCode.PERMISSION_DENIED)) for _ in range(12)]
    assert delays[:4] == [2 * RETRY_S, 4 * RETRY_S, 8 * RETRY_S, 16 * RETRY_S] and delays[-1] == MOST_S
    assert sum(delay < 1.0 for delay in delays) <= 4, "a handful of tries, then seconds"
    assert [retry.delay_s(GONE), retry.delay_s(None)] == [RETRY_S, RETRY_S]
    assert retry.delay_s(EXPIRED) == 2 * RETRY_S, "it begins anew"


def test_a_refusal_after_a_time_that_worked_is_the_first() -> None:
    now_s = 0.0
    retry = Retry(spread=lambda: 1.0, clock_s=lambda: now_s)
    for _ in range(6):
        retry.delay_s(EXPIRED)
    retry.welcomed()
    assert retry.refusals == 6 and retry.delay_s(EXPIRED) > 4 * RETRY_S, "welcome, and refused at once"
    retry.welcomed()
    now_s += MOST_S
    assert retry.refusals == 0 and retry.delay_s(EXPIRED) == 2 * RETRY_S


def test_peers_that_were_refused_together_do_not_come_back_together() -> None:
    early, late = Retry(spread=lambda: 0.0), Retry(spread=lambda: 1.0)
    for _ in range(20):
        delays = early.delay_s(EXPIRED), late.delay_s(EXPIRED)
    assert delays == (MOST_S / 2, MOST_S)


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (EXPIRED, True),
        (ended(grpc.StatusCode.UNAVAILABLE, "Tls handshake failed (TSI_PROTOCOL_FAILURE)"), True),
        (ended(grpc.StatusCode.UNAVAILABLE, "Hostname Verification Check failed."), True),
        (ended(grpc.StatusCode.FAILED_PRECONDITION, "another topology"), True),
        (BadMessage("policy", "the parent has another"), True),
        (GONE, False),
        (ended(grpc.StatusCode.CANCELLED), False),
        (ended(grpc.StatusCode.UNAVAILABLE, ""), False),
    ],
)
def test_what_is_a_refusal(error: Exception, refusal: bool) -> None:
    assert is_refusal(error) is refusal
    assert not may_be_a_certificate(error) or is_refusal(error)
