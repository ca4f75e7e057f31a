"""The handshake: a peer names itself and its terms, and a peer that breaks a rule is refused.

The refused peer gets a status and a reason, and is counted; its stream ends, and with it only its own leases.

    INVALID_ARGUMENT     the bytes are no valid message, or the message breaks a rule
    PERMISSION_DENIED    the peer speaks for another host or switch
    FAILED_PRECONDITION  another protocol, topology, horizon, slot length or policy
    RESOURCE_EXHAUSTED   too many streams, messages or flows, too large a message, too slow a reader
    DEADLINE_EXCEEDED    the peer connected and sent nothing
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn, TypeAlias, TypeVar, cast
from urllib.parse import unquote

import grpc
from google.protobuf.message import DecodeError, Message

from paceline.flowcore.model.uplinks import disagreement
from paceline.service.log_rate_limit import LogRateLimit
from paceline.service.tls import peer_names
from paceline.wire import control_pb2 as pb
from paceline.wire.calls import MAX_MESSAGE_BYTES, PROTOCOL
from paceline.wire.codec import BadMessage
from paceline.wire.hello import uplinks_of
from switchd.switch import Switch

_log = logging.getLogger(__name__)

HELLO_TIMEOUT_S = 2.0

# Several hosts may come from one address (containers, tests), a thousand streams of one host may not.
SPARE_STREAMS = 16

STATUS = {
    "identity": grpc.StatusCode.PERMISSION_DENIED,
    "protocol": grpc.StatusCode.FAILED_PRECONDITION,
    "topology": grpc.StatusCode.FAILED_PRECONDITION,
    "horizon": grpc.StatusCode.FAILED_PRECONDITION,
    "slot_length": grpc.StatusCode.FAILED_PRECONDITION,
    "policy": grpc.StatusCode.FAILED_PRECONDITION,
    "busy": grpc.StatusCode.FAILED_PRECONDITION,
    "streams": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "flood": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "size": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "slow": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "flows": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "silence": grpc.StatusCode.DEADLINE_EXCEEDED,
}

Context: TypeAlias = grpc.aio.ServicerContext
M = TypeVar("M", bound=Message)


class Handshake:
    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._log_limit = LogRateLimit()
        self._open: Counter[tuple[str, str]] = Counter()  # streams or watchers, by kind and address

    @property
    def _max_streams(self) -> int:
        return SPARE_STREAMS + 2 * (len(self._switch.own_hosts) + len(self._switch.routes.other_switches))

    def check_hello(self, hello: pb.Hello, context: Context, known: frozenset[str], what: str) -> str:
        """The peer's name, if its terms are this switch's; a term that Hello leaves out is accepted."""
        name = self.check_identity(hello.name, context, known, what)
        topology, horizon, policy = self._switch.config.topology, self._switch.slots.horizon, self._switch.config.policy
        if hello.protocol != PROTOCOL:
            raise BadMessage("protocol", f"{name} speaks version {hello.protocol}, this switch {PROTOCOL}")
        if hello.topology and hello.topology != topology.fingerprint:
            # It may have been read at another time: what was added meanwhile is no contradiction.
            other = f"{name} was configured with another topology than {self._switch.name}"
            if not hello.uplink:
                raise BadMessage("topology", other)
            if why := disagreement(topology, uplinks_of(hello)):
                raise BadMessage("topology", f"{other}: {why}")
        if hello.horizon not in (0, horizon):
            raise _different_terms("horizon", f"{name} plans {hello.horizon} slots ahead, this switch {horizon}")
        if hello.slot_length_ns not in (0, self._switch.slots.length_ns):
            its_ms, own_ms = hello.slot_length_ns / 1e6, self._switch.slots.length_ns / 1e6
            raise _different_terms("slot_length", f"{name} has slots of {its_ms:g} ms, this switch of {own_ms:g} ms")
        if hello.policy not in ("", policy):
            raise _different_terms("policy", f"{name} runs {hello.policy[:60]!r}, this switch {policy!r}")
        return name

    def check_identity(self, name: str, context: Context, known: frozenset[str], what: str) -> str:
        if name not in known:
            raise BadMessage("identity", f"{name[:60]!r} is not {what} of {self._switch.name}")
        if self._switch.config.tls is not None and name not in peer_names(context.auth_context()):
            raise BadMessage("identity", f"the certificate is not for {name}")
        return name

    @asynccontextmanager
    async def refusals_as_status(
        self, context: Context, what: str = "streams", limit: int | None = None
    ) -> AsyncIterator[None]:
        """A BadMessage raised inside ends the stream with its status, is counted, and logged at a limited rate.

        The stream counts until the peer has taken the status: a peer that does not read keeps it open.
        """
        limit = self._max_streams if limit is None else limit
        address = _address(context)
        kind = what, address
        self._open[kind] += 1
        try:
            if self._open[kind] > limit:
                raise BadMessage("streams", f"more than {limit} {what} from one address")
            yield
        except BadMessage as error:
            self.count_refusal(error, address)
            await _abort(context, STATUS.get(error.reason, grpc.StatusCode.INVALID_ARGUMENT), str(error))
        finally:
            self._open[kind] -= 1
            if not self._open[kind]:
                del self._open[kind]

    def count_refusal(self, error: BadMessage, peer: str) -> None:
        self._switch.count_refusal(error.reason)
        self._log_limit.log(
            _log, logging.WARNING, (peer, error.reason), "refused a peer: %s", error, extra={"peer": peer}
        )


async def first_message(context: Context, kind: type[M]) -> M:
    """The first message of a stream, within HELLO_TIMEOUT_S."""
    try:
        data = await asyncio.wait_for(context.read(), HELLO_TIMEOUT_S)
    except TimeoutError:
        raise BadMessage("silence", "no Hello within the time limit") from None
    if data is grpc.aio.EOF:
        raise BadMessage("silence", "no Hello before the stream ended")
    return parse(data, kind)


def parse(data: bytes, kind: type[M]) -> M:
    if len(data) > MAX_MESSAGE_BYTES:
        raise BadMessage("size", f"found a message of {len(data)} bytes, expected at most {MAX_MESSAGE_BYTES}")
    try:
        return cast(M, kind.FromString(data))
    except DecodeError:
        raise BadMessage("shape", f"the {len(data)} bytes are no valid {kind.__name__}") from None


def _different_terms(reason: str, found: str) -> BadMessage:
    return BadMessage(reason, f"{found}; configure the same in both")


async def _abort(context: Context, status: grpc.StatusCode, reason: str) -> NoReturn:
    await context.abort(status, reason)
    raise AssertionError("abort does not return")


def _address(context: Context) -> str:
    """The peer's address without the port: ipv4:10.0.0.1, ipv6:[::1], unix:."""
    peer = unquote(context.peer())
    return peer if peer.startswith("unix") else peer.rpartition(":")[0]
