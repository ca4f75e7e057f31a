"""The calls of the service by name, without generated classes: both ends take bytes and parse them themselves,
so that a peer's broken message is named and counted here and not by gRPC."""

import grpc
from google.protobuf.message import Message

SERVICE = "paceline.v1.Switch"
PROTOCOL = 1

# 500 flows of 10 slots are 120 kB.
MAX_MESSAGE_BYTES = 1 << 20

# Messages that wait for their writer are coalesced, and newer ones replace older ones; messages that were sent and wait
# to be read are neither. gRPC would let 64 kB and more of them wait there, frames of many slots.
UNREAD_BYTES = 8192
UNREAD_OPTIONS = [
    ("grpc.http2.lookahead_bytes", UNREAD_BYTES),
    ("grpc.http2.bdp_probe", 0),  # it would raise the limit while messages come quickly
]

# A peer that vanishes without closing its connection (power, cable) is noticed within about two seconds; a peer that
# was killed at once. Reconnecting is tried about once a slot: a switch that returns has its hosts back within two. An
# attempt that is not refused has a second: with TLS, a switch that all hosts return to at once needs more than a slot.
CHANNEL_OPTIONS = [
    *UNREAD_OPTIONS,
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 1000),
    ("grpc.keepalive_timeout_ms", 1000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 1000),  # in effect how long an attempt may take
    ("grpc.max_reconnect_backoff_ms", 60),
    # Every stream its own connection: daemons that share a process in tests must fail apart.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
]


def path(method: str) -> str:
    return f"/{SERVICE}/{method}"


def serialized(message: Message) -> bytes:
    data: bytes = message.SerializeToString()
    return data


def open_channel(
    address: str, credentials: grpc.ChannelCredentials | None, options: list[tuple[str, str]] | None = None
) -> grpc.aio.Channel:
    settings = CHANNEL_OPTIONS + list(options or ())
    if credentials is None:
        return grpc.aio.insecure_channel(address, settings)
    return grpc.aio.secure_channel(address, credentials, settings)
