"""switchd from start to end: listen, keep the streams to the parents, and drain when asked to stop."""

import asyncio
import logging
from contextlib import AsyncExitStack, suppress
from dataclasses import fields
from pathlib import Path

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
from switchd.config import SwitchConfig, read_config
from switchd.handshake import HELLO_TIMEOUT_S
from switchd.streams import Streams
from switchd.switch import Switch
from switchd.topology.place import WARM_UP_SLOTS, Place
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

# What a reload may change.
RELOADABLE = {"topology", "tls"}

# Streams get a few slots to finish; then hosts decide without their switch.
DRAIN_S = 0.2


class SwitchDaemon:
    def __init__(self, config: SwitchConfig, path: Path | None = None) -> None:
        """`path`: of the configuration, which a reload reads again."""
        self.config = config
        self._path = path
        self.port = 0
        self.switch: Switch | None = None
        self._open = AsyncExitStack()
        self._credentials: RenewableCredentials | None = None
        self._uplinks: list[Uplink] = []

    async def startup(self) -> None:
        switch = self.switch = Switch(self.config)
        self._open.callback(switch.close)
        self._note_expiry(self.config)
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
        """Certificates, for handshakes to come, and the topology, while streams stay open; all else is read at the
        start. Files are read in a thread: hosts are answered meanwhile."""
        fresh = self.config if self._path is None else await asyncio.to_thread(read_config, self._path)
        self._refuse_what_is_fixed(fresh)
        rewired = fresh.topology != self.config.topology
        if fresh.tls is None and not rewired:
            raise NothingToReload("a switch reads its configuration at its start; restart it to change it")
        if fresh.tls is not None and self._credentials is not None:
            self._note_expiry(fresh)
            self._credentials.renew(fresh.tls)
            for uplink in self._uplinks:
                uplink.renew(fresh.tls)
            _log.info("certificates read anew", extra={"switch": fresh.name})
        if rewired and self.switch is not None:
            await self._rewire(self.switch, fresh)
        self.config = fresh

    def _refuse_what_is_fixed(self, fresh: SwitchConfig) -> None:
        before, name = self.config, self.config.name
        changed = {one.name for one in fields(fresh) if getattr(fresh, one.name) != getattr(before, one.name)}
        fixed = changed - RELOADABLE
        if (fresh.tls is None) != (before.tls is None):
            fixed.add("tls")
        if fresh.topology.parents.get(name) != before.topology.parents.get(name):
            fixed.add("parents")
        if fixed:
            raise OSError(f"{self._path}: {min(fixed)} cannot change while switchd runs; restart it")

    async def _rewire(self, switch: Switch, fresh: SwitchConfig) -> None:
        switch.prepare(await asyncio.to_thread(Place, fresh, switch.slots))
        await asyncio.sleep(WARM_UP_SLOTS * switch.slots.length_ns / 1e9)
        switch.take_over()
        hosts, switches = len(fresh.topology.hosts), len(fresh.topology.switches)
        _log.info("another topology: %d hosts, %d switches", hosts, switches, extra={"switch": fresh.name})

    def _hear_of_refused_handshakes(self, streams: Streams) -> None:
        """Counted and logged as every refused peer is; of which peer, gRPC does not say."""
        loop = asyncio.get_running_loop()

        def refused(why: str) -> None:
            error = BadMessage("certificate", f"a handshake failed: {why}")
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(streams.handshake.count_refusal, error, "unknown")

        grpc_lines.on_refused_handshake = refused

    def _note_expiry(self, config: SwitchConfig) -> None:
        """Raises InputError for certificates that peers would refuse."""
        if config.tls is not None and self.switch is not None:
            found = require_valid(config.tls, config.name)
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
