"""How soon a stream that ended is opened again.

    broken, or no peer there     about once a slot: a switch that returns has its hosts back within two
    refused                      RETRY_S, doubled each time, up to MOST_S: the same again would not help, and a rack of
                                 hosts with an expired certificate would keep its switch busy with handshakes

A refusal of a stream that has worked for MOST_S is the first in a row.

A delay is spread between half and all of itself, so that hosts that were refused together do not come back together.
"""

import random
import time
from collections.abc import Callable

import grpc

from paceline.wire.codec import BadMessage

RETRY_S = 0.05
MOST_S = 10.0

_REFUSALS = {
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNIMPLEMENTED,
}
# gRPC's words where a certificate was refused, by either end; the last also for a broken connection.
_HANDSHAKE = ("handshake", "verification check", "secure read failed")


class Retry:
    def __init__(
        self, spread: Callable[[], float] = random.random, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._refusals = 0
        self._spread, self._clock_s = spread, clock_s
        self._welcomed_s: float | None = None

    @property
    def refusals(self) -> int:
        """In a row."""
        has_worked = self._welcomed_s is not None and self._clock_s() - self._welcomed_s >= MOST_S
        return 0 if has_worked else self._refusals

    def welcomed(self) -> None:
        """The stream works."""
        self._welcomed_s = self._clock_s()

    def delay_s(self, error: Exception | None) -> float:
        """After a stream that ended with this; None: the peer ended it."""
        before, self._welcomed_s = self.refusals, None
        if error is None or not is_refusal(error):
            self._refusals = 0
            return RETRY_S
        self._refusals = before + 1
        return min(MOST_S, RETRY_S * 2.0 ** min(self._refusals, 30)) * (0.5 + 0.5 * self._spread())


def is_refusal(error: Exception) -> bool:
    if isinstance(error, grpc.aio.AioRpcError):
        return error.code() in _REFUSALS or may_be_a_certificate(error)
    return isinstance(error, BadMessage)


def may_be_a_certificate(error: Exception) -> bool:
    if not isinstance(error, grpc.aio.AioRpcError) or error.code() is not grpc.StatusCode.UNAVAILABLE:
        return False
    details = (error.details() or "").lower()
    return any(words in details for words in _HANDSHAKE)
