"""The stream to this host's switch: how it is opened, and what the host hears of it. Nothing here waits."""

import asyncio
import logging
from collections.abc import Callable

import grpc

from hostd.config import HostConfig
from hostd.introspect.host_view import SwitchView
from paceline.flowcore.messages.events import SwitchLost, Welcomed
from paceline.flowcore.messages.reports import Feedback
from paceline.flowcore.model.slots import SlotClock
from paceline.flowcore.model.topology import Topology
from paceline.service.handshakes.tls_failure import why_handshake_fails
from paceline.service.shared_clock import SharedClock
from paceline.service.tls import TlsFiles, expecting
from paceline.wire.calls import open_channel
from paceline.wire.host_state import HostState
from paceline.wire.host_stream import HostStream, Terms

_log = logging.getLogger(__name__)

SwitchSays = Welcomed | Feedback | SwitchLost


class SwitchLink:
    def __init__(
        self,
        config: HostConfig,
        address: str,
        slots: SlotClock,
        clock: SharedClock,
        on_event: Callable[[SwitchSays], None],
    ) -> None:
        self._name, self._address, self._on_event = config.switch_name, address, on_event
        self._tls, self._host = config.tls, config.name
        self._credentials = config.tls.channel_credentials() if config.tls else None
        self.stream = HostStream(
            self._open_channel(),
            config.name,
            config.topology.fingerprint,
            clock.own_ns,
            clock.peer,
            slots=slots,
            policy=config.policy,
            on_welcome=self._welcomed,
            on_feedback=on_event,
            on_lost=self._lost,
            reopen=self._open_channel,
            diagnose=self._why_handshake_fails,
        )
        self.stream.knows(config.topology)

    async def run(self) -> None:
        """Until cancelled."""
        await self.stream.run()

    async def close(self) -> None:
        await self.stream.channel.close()

    def renew(self, tls: TlsFiles) -> None:
        """Shows these files' certificate from the next stream on, which is tried at once if none is open."""
        self._tls, self._credentials = tls, tls.channel_credentials()
        self.stream.renew()

    def knows(self, topology: Topology) -> None:
        """A stream that is open goes on; one that was refused is tried again at once."""
        self.stream.knows(topology)
        self.stream.renew()

    def _open_channel(self) -> grpc.aio.Channel:
        options = expecting(self._name) if self._credentials is not None else None
        return open_channel(self._address, self._credentials, options)

    async def _why_handshake_fails(self) -> str | None:
        return await asyncio.to_thread(why_handshake_fails, self._tls, self._host, self._name, self._address)

    def tell(self, state: HostState) -> None:
        self.stream.tell(state)

    def view(self) -> SwitchView:
        return SwitchView(
            self._name,
            self._address,
            self.stream.connected,
            self.stream.refused,
            self.stream.off_by_ns,
            self.stream.silent,
        )

    def _welcomed(self, terms: Terms) -> None:
        _log.info("taken in by %s", terms.switch, extra={"switch": terms.switch})
        self._on_event(Welcomed(terms.phase_ns))

    def _lost(self) -> None:
        _log.warning("no switch to ask; deciding alone until there is one")
        self._on_event(SwitchLost())
