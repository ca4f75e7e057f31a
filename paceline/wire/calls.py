"""The calls of the service by name, without generated classes: both ends take bytes and parse them themselves,
so that a peer's broken message is an error we name and count rather than gRPC's."""

import grpc

SERVICE = "paceline.v1.Switch"
PROTOCOL = 1

# 500 flows of 10 slots are 120 kB.
MAX_MESSAGE_BYTES = 1 << 20

# Letters that wait for their writer are joined, and newer ones replace older ones; those that were sent and wait to be
# read are neither. gRPC would let 64 kB and more of them wait there, frames of many slots.
UNREAD_BYTES = 8192
UNREAD_OPTIONS = [
    ("grpc.http2.lookahead_bytes", UNREAD_BYTES),
    ("grpc.http2.bdp_probe", 0),  # it would raise the limit while messages come quickly
]

# A peer that is gone without a word (power, cable) is noticed within about two seconds; one that was killed at
# once. Reconnecting is tried about once a slot: a switch that returns has its hosts back within two. An attempt that
# nobody refuses has a second: a switch that all hosts return to at once, with TLS, is not as quick as a slot.
CHANNEL_OPTIONS = [
    *UNREAD_OPTIONS,
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 1000),
    ("grpc.keepalive_timeout_ms", 1000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 1000),  # in truth how long an attempt may take
    ("grpc.max_reconnect_backoff_ms", 60),
    # Every stream its own connection: daemons that share a process in tests must fail apart.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
]


def path(method: str) -> str:
    return f"/{SERVICE}/{method}"


def open_channel(
    address: str, credentials: grpc.ChannelCredentials | None, options: list[tuple[str, str]] | None = None
) -> grpc.aio.Channel:
    settings = CHANNEL_OPTIONS + list(options or ())
    if credentials is None:
        return grpc.aio.insecure_channel(address, settings)
    return grpc.aio.secure_channel(address, credentials, settings)
