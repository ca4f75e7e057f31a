"""switchd from start to end: listen, keep the streams to the parents, and drain when asked to stop."""

import asyncio
import logging
from contextlib import AsyncExitStack, suppress

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from paceline.service.handshakes import grpc_lines
from paceline.service.handshakes.certificates import require_valid
from paceline.service.lifecycle import NothingToReload
from paceline.service.metrics import MetricsServer
from paceline.service.tls import RenewableCredentials
from paceline.wire.calls import MAX_MESSAGE_BYTES, SERVICE, UNREAD_OPTIONS
from paceline.wire.codec import BadMessage
from switchd.config import SwitchConfig
from switchd.handshake import HELLO_TIMEOUT_S
from switchd.streams import Streams
from switchd.switch import Switch
from switchd.uplink import Uplink

_log = logging.getLogger(__name__)

SERVER_OPTIONS = [
    *UNREAD_OPTIONS,
    # Up to this size switchd refuses and counts a message that is too large; beyond it gRPC does not read it.
    ("grpc.max_receive_message_length", 4 * MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),  # a second switch on the same port must fail, not take every other connection
    ("grpc.max_concurrent_streams", 128),
    # TCP, then TLS and HTTP/2 by then, or the connection is closed: gRPC itself would wait for two minutes.
    ("grpc.server_handshake_timeout_ms", round(1000 * HELLO_TIMEOUT_S)),
    # A connection without a stream costs a descriptor, and hosts and switches keep their streams open.
    ("grpc.max_connection_idle_ms", 10_000),
    ("grpc.keepalive_time_ms", 1000),
    ("grpc.keepalive_timeout_ms", 1000),
    # Peers ping an idle stream every second (paceline/wire/calls.py); a server would hang up on them after three.
    ("grpc.http2.min_ping_interval_without_data_ms", 500),
]

# A switch is alive as long as its tick is no later than this; systemd's watchdog is pinged only then.
ALIVE_SLOTS = 10

HOUSEKEEPING_S = 5.0

# Streams get a few slots to finish; then hosts decide without their switch.
DRAIN_S = 0.2


class SwitchDaemon:
    def __init__(self, config: SwitchConfig) -> None:
        self.config = config
        self.port = 0
        self.switch: Switch | None = None
        self._open = AsyncExitStack()
        self._credentials: RenewableCredentials | None = None
        self._uplinks: list[Uplink] = []

    async def startup(self) -> None:
        switch = self.switch = Switch(self.config)
        self._open.callback(switch.close)
        self._note_expiry()
        streams = Streams(switch)
        self._hear_of_refused_handshakes(streams)
        server = grpc.aio.server(options=SERVER_OPTIONS)
        server.add_generic_rpc_handlers((streams.handler(),))
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        tls = self.config.tls
        try:
            if tls is None:
                self.port = server.add_insecure_port(self.config.listen)
            else:
                self._credentials = tls.renewable_server_credentials()
                self.port = server.add_secure_port(self.config.listen, self._credentials.credentials)
        except RuntimeError:
            raise OSError(f"cannot listen on {self.config.listen}: the port is taken or not allowed") from None
        await server.start()
        self._open.push_async_callback(server.stop, DRAIN_S)
        if self.config.metrics is not None:
            metrics = MetricsServer(switch.registry, self.config.metrics, self.alive)
            self._open.callback(metrics.close)
        await self._health.set(SERVICE, health_pb2.HealthCheckResponse.SERVING)
        self._uplinks = [Uplink(switch, streams, parent, address) for parent, address in self.config.parents.items()]
        _log.info("listening on %s", self.config.listen, extra={"switch": self.config.name})

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for uplink in self._uplinks:
                tasks.create_task(uplink.run())
            tasks.create_task(self._keep_house(self.switch))

    async def _keep_house(self, switch: Switch | None) -> None:
        while switch is not None:
            await asyncio.sleep(HOUSEKEEPING_S)
            switch.warn_of_split_jobs()

    async def reload(self) -> None:
        """Certificates, from the same files, for handshakes to come; all else is read at the start."""
        tls = self.config.tls
        if tls is None or self._credentials is None:
            raise NothingToReload("a switch reads its configuration at its start; restart it to change it")
        self._note_expiry()
        self._credentials.renew(tls)
        for uplink in self._uplinks:
            uplink.renew(tls)
        _log.info("certificates read anew; all else is read at the start", extra={"switch": self.config.name})

    def _hear_of_refused_handshakes(self, streams: Streams) -> None:
        """Counted and logged as every refused peer is; of which peer, gRPC does not say."""
        loop = asyncio.get_running_loop()

        def refused(why: str) -> None:
            error = BadMessage("certificate", f"a handshake failed: {why}")
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(streams.handshake.count_refusal, error, "unknown")

        grpc_lines.on_refused_handshake = refused

    def _note_expiry(self) -> None:
        """Raises InputError for certificates that peers would refuse."""
        if self.config.tls is not None and self.switch is not None:
            found = require_valid(self.config.tls, self.config.name)
            for name, expires_s in (("own", found.expires_s), ("ca", found.ca_expires_s)):
                self.switch.instruments.certificate_expiry.labels(name).set(expires_s)

    async def shutdown(self) -> None:
        if self.switch is not None:
            self.switch.stopping = True
        if self.switch is not None and hasattr(self, "_health"):
            await self._health.enter_graceful_shutdown()
        await self._open.aclose()

    def alive(self) -> bool:
        """The event loop runs, or this would not be called; a switch with an entry in its tables must tick as well."""
        switch = self.switch
        return switch is None or switch.overdue_ns() < ALIVE_SLOTS * switch.slots.length_ns
