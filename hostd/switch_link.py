"""The stream to this host's switch: how it is opened, and what the host hears of it. Nothing here waits."""

import logging
from collections.abc import Callable

from hostd.config import HostConfig
from hostd.introspect.host_view import SwitchView
from paceline.flowcore.messages.events import SwitchLost, Welcomed
from paceline.flowcore.messages.reports import Feedback
from paceline.flowcore.model.slots import SlotClock
from paceline.service.shared_clock import SharedClock
from paceline.service.tls import expecting
from paceline.wire.calls import open_channel
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
        credentials = config.tls.channel_credentials() if config.tls else None
        options = expecting(config.switch_name) if config.tls else None
        self._channel = open_channel(address, credentials, options)
        self.stream = HostStream(
            self._channel,
            config.name,
            config.topology.fingerprint,
            clock.own_ns,
            clock.peer,
            slots=slots,
            policy=config.policy,
            on_welcome=self._welcomed,
            on_feedback=on_event,
            on_lost=self._lost,
        )

    async def run(self) -> None:
        """Until cancelled."""
        await self.stream.run()

    async def close(self) -> None:
        await self._channel.close()

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
