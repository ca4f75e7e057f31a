"""The stream to this host's switch, and whether its answers count.

Law: reports leave and answers are taken only while the switch has this host's slots and policy; a switch compares them
with the Hello, and one that did not would divide its links for claims that are never used. Nothing here waits.
"""

import logging
from collections.abc import Callable

from hostd.config import HostConfig
from hostd.introspect.host_view import SwitchView
from paceline.flowcore.messages.events import SwitchLost, Welcomed
from paceline.flowcore.messages.reports import Feedback, Report
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
        self._own_terms = (slots.length_ns, slots.horizon, slots.epoch_ns, config.policy)
        self._terms_refused = ""  # why the switch's answers do not count
        self._silent: tuple[str, ...] = ()
        credentials = config.tls.channel_credentials() if config.tls else None
        options = expecting(config.switch_name) if config.tls else None
        self._channel = open_channel(address, credentials, options)
        self._stream = HostStream(
            self._channel,
            config.name,
            config.topology.fingerprint,
            clock.own_ns,
            clock.peer,
            horizon=slots.horizon,
            slot_length_ns=slots.length_ns,
            policy=config.policy,
            on_welcome=self._welcomed,
            on_feedback=self._feedback,
            on_lost=self._lost,
        )

    async def run(self) -> None:
        """Until cancelled."""
        await self._stream.run()

    async def close(self) -> None:
        await self._channel.close()

    def send(self, report: Report) -> None:
        """Lost where the stream is closed or stuck: the next report takes its place."""
        if not self._terms_refused:
            self._stream.send(report)

    def view(self) -> SwitchView:
        return SwitchView(
            self._name,
            self._address,
            self._stream.connected,
            self._terms_refused or self._stream.refused,
            self._stream.off_by_ns,
            self._silent,
        )

    def _welcomed(self, terms: Terms) -> None:
        if (terms.slot_length_ns, terms.horizon, terms.epoch_ns, terms.policy) != self._own_terms:
            self._terms_refused = (
                f"{terms.switch} has {terms.horizon} slots of {terms.slot_length_ns / 1e6:g} ms since "
                f"{terms.epoch_ns} ns and policy {terms.policy}; configure the same in both"
            )
            _log.error("deciding alone: %s", self._terms_refused)
            self._on_event(SwitchLost())
            return
        self._terms_refused = ""
        _log.info("taken in by %s", terms.switch, extra={"switch": terms.switch})
        self._on_event(Welcomed(terms.phase_ns))

    def _feedback(self, feedback: Feedback) -> None:
        if not self._terms_refused:
            self._silent = feedback.silent
            self._on_event(feedback)

    def _lost(self) -> None:
        self._terms_refused = ""  # why there is no stream now, the stream says
        _log.warning("no switch to ask; deciding alone until there is one")
        self._on_event(SwitchLost())
