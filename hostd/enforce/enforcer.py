"""Rates into the kernel, on a lease: backend, journal and guardian as one thing that can be begun anew.

Without `enforce` nothing is set and nothing needs a lease. With it, the lease is taken before the first change, and a
revocation (we hung, an operator released us) costs the flows their limits for a moment and us nothing: the books are
closed, a new lease is taken, and what is attached now is attached again.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from hostd.config import HostConfig
from hostd.enforce.base import Backend, CannotEnforce, Trouble
from hostd.enforce.htb import HtbBackend
from hostd.enforce.observe import ObserveBackend
from hostd.enforce.pacing import PacingBackend
from hostd.enforce.probe import carrying, choose, probe
from hostd.enforce.trouble_kinds import kind_of
from hostd.kernel.devices import link_speed_bps, read_devices
from hostd.kernel.netlink import Netlink
from hostd.kernel.sockets import DataSocket
from hostd.safety.lease import Lease
from hostd.safety.undo_log import BadJournal, Journal, Revoked, release
from paceline.flowcore.messages.events import Limit
from paceline.flowcore.model.patterns import FlowId
from paceline.service.log_rate_limit import LogRateLimit

_log = logging.getLogger(__name__)


class Enforcer:
    def __init__(self, config: HostConfig, slot_ns: int) -> None:
        """Raises CannotEnforce."""
        self.fail_opens = 0
        self.troubles: Counter[str] = Counter()
        self.trouble_kinds: Counter[str] = Counter()
        self._config, self._slot_ns = config, slot_ns
        self._attached: dict[FlowId, tuple[DataSocket, ...]] = {}
        self._limits: dict[FlowId, Limit] = {}
        self._log_limit = LogRateLimit()
        self._lease: Lease | None = None
        self._terms: tuple[object, ...] = ()  # of the backend while there is a lease
        self.backend: Backend = ObserveBackend()
        self.released = False  # an operator lifted everything
        self._open()

    @property
    def guardian_pid(self) -> int | None:
        return self._lease.guardian_pid if self._lease else None

    def attach(self, flow: FlowId, sockets: tuple[DataSocket, ...]) -> None:
        self._attached[flow] = sockets
        self._note(flow, "attached", sockets=len(sockets))
        self._do(lambda: self.backend.attach(flow, sockets))

    def detach(self, flow: FlowId) -> None:
        self._attached.pop(flow, None)
        self._limits.pop(flow, None)
        self._note(flow, "detached")
        self._do(lambda: self.backend.detach(flow))

    def apply(self, limits: Sequence[Limit]) -> None:
        self._limits |= {limit.flow: limit for limit in limits}
        self._do(lambda: self.backend.apply(limits))

    def beat(self) -> None:
        """Once per slot: the guardian hears that we live, or we hear that we were given up."""
        if self._lease is not None:
            self._do(self._beat)

    def refresh(self) -> None:
        """About once a second: what could not be done before is tried again, a lease first of all."""
        if self._config.mode == "enforce" and self._lease is None and not self.released:
            self._open_or_observe()
            if self._lease is not None:
                self._set_again()
        self._do(self.backend.refresh)

    def watch_losses(self) -> None:
        """Several times a second: sockets that lose packets are helped, those that do not any more are as they were."""
        self._do(self.backend.watch_losses)

    def read_back(self) -> dict[FlowId, Limit]:
        try:
            return self.backend.read_back()
        except OSError as error:
            self._count([Trouble(None, f"cannot read back: {error}")])
            return {}

    def release(self) -> dict[str, str]:
        """Lifts everything and sets nothing any more, until the next start or reload; returns what is left, by key."""
        self._close()
        self.released = True
        self.fail_opens += 1
        return self._take_back()

    def reconfigure(self, config: HostConfig) -> None:
        """Another mode or backend; raises CannotEnforce and goes on as before if that does not work here.

        Whether it works is asked before anything is lifted, and where nothing would be different nothing is.
        """
        if config.mode == "enforce":
            name, _ = _choose(config)
            if self._lease is not None and self._terms == _terms(config, name):
                self._config = config
                return
        before, self._config = self._config, config
        self._close()
        try:
            self._open()
            self.released = False
        except CannotEnforce:
            self._config = before
            if not self.released:
                self._open_or_observe()
            raise
        finally:
            self._set_again()

    def close(self) -> None:
        self._close()

    # ---- The lease ----

    def _open(self) -> None:
        config = self._config
        if config.mode != "enforce":
            self._count_leftovers(self._take_back())
            return
        try:
            journal = Journal(config.lease_journal)
            self._count_leftovers(journal.leftovers)
            self._lease = Lease(journal, self._slot_ns)
            name, why_none = _choose(config)
            _log.info("enforcing with %s", name)
            if why_none:
                self._count([Trouble(None, f"no backend works here, see paceline probe: {why_none}")])
            self.backend, self._terms = self._make(name, journal), _terms(config, name)
        except (OSError, Revoked) as error:
            self._close()
            raise CannotEnforce(f"cannot take a lease on the kernel: {error}") from error
        except CannotEnforce:
            self._close()
            raise

    def _take_back(self) -> dict[str, str]:
        """What is in the journal, ours or that of a predecessor who died; returns what is left, by key."""
        journal = self._config.lease_journal
        try:
            return release(journal)
        except (BadJournal, OSError) as error:
            return {str(journal): str(error)}

    def _count_leftovers(self, problems: Mapping[str, str]) -> None:
        self._count(Trouble(None, f"left behind in {key}: {why}") for key, why in problems.items())

    def _make(self, name: str, journal: Journal) -> Backend:
        config = self._config
        match name:
            case "htb":
                return HtbBackend(
                    journal,
                    lambda name: min(link_speed_bps(name) or config.nic_bps, config.nic_bps),
                    takeover=config.takeover,
                    transport=config.transport,
                )
            case "pacing":
                return PacingBackend(
                    journal,
                    config.nic_bps,
                    small_bundles=config.small_bundles,
                    transport=config.transport,
                )
            case _:
                return ObserveBackend()

    def _close(self) -> None:
        if self._lease is not None:
            lease, self._lease = self._lease, None
            backend, self.backend = self.backend, ObserveBackend()
            self._count(backend.close())
            for key, problem in lease.close().items():
                self._count([Trouble(None, f"could not restore {key}: {problem}")])

    def _begin_anew(self, reason: str) -> None:
        _log.warning("every limit was lifted, beginning anew: %s", reason)
        self.fail_opens += 1
        self._close()
        self._open_or_observe()
        self._set_again()

    def _open_or_observe(self) -> None:
        try:
            self._open()
        except CannotEnforce as error:
            self._log_limit.log(_log, logging.ERROR, "no lease", "observing for now: %s", error)

    def _set_again(self) -> None:
        steps = [partial(self.backend.attach, flow, sockets) for flow, sockets in self._attached.items()]
        for step in [*steps, partial(self.backend.apply, list(self._limits.values()))]:
            try:
                self._count(step())
            except (OSError, CannotEnforce, Revoked) as error:  # revoked once more: the next beat begins anew
                self._count([Trouble(None, str(error))])

    # ---- Trouble ----

    def _beat(self) -> Iterable[Trouble]:
        if self._lease is not None:
            self._lease.beat()
        return ()

    def _do(self, work: Callable[[], Iterable[Trouble]]) -> None:
        """Trouble is counted. A revocation begins anew; what the kernel refuses outright is trouble like any.

        Looked for first: under a lease that was taken from us nothing is where we think it is.
        """
        try:
            if self._lease is not None:
                self._lease.journal.check()
            self._count(work())
        except Revoked as error:
            self._begin_anew(str(error))
        except (OSError, CannotEnforce) as error:
            self._count([Trouble(None, str(error))])

    def _count(self, troubles: Iterable[Trouble]) -> None:
        for trouble in troubles:
            self.trouble_kinds[kind_of(trouble.reason)] += 1
            self.troubles[trouble.reason[:80]] += 1
            if len(self.troubles) > 100:
                self.troubles = Counter(dict(self.troubles.most_common(50)))
            names = {"job": trouble.flow.job, "flow": str(trouble.flow)} if trouble.flow else {}
            self._log_limit.log(_log, logging.WARNING, trouble.reason, "not enforced: %s", trouble.reason, extra=names)

    def _note(self, flow: FlowId, what: str, **more: object) -> None:
        fields = {"job": flow.job, "flow": str(flow), "backend": self.backend.name, **more}
        self._log_limit.log(_log, logging.INFO, (flow, what), "flow %s", what, extra=fields)


def _choose(config: HostConfig) -> tuple[str, str]:
    """The backend's name, and why it is none where `auto` finds none; raises CannotEnforce."""
    findings = {finding.name: finding for finding in probe()}
    name = config.backend
    if name != "auto":
        if not findings[name].usable:
            advice = findings[name].advice or "see paceline probe"
            raise CannotEnforce(f"{name} does not work here: {findings[name].reason}; {advice}")
        return name, ""
    with Netlink() as netlink:
        devices = carrying(read_devices(netlink), config.own_addresses)
    name = choose(findings.values(), devices, config.takeover)
    why = (f"{one}: {findings[one].reason}" for one in ("htb", "pacing"))
    return name, "; ".join(why) if name == "observe" else ""


def _terms(config: HostConfig, name: str) -> tuple[object, ...]:
    """All that makes one backend different from another, of what a reload may change."""
    match name:
        case "htb":
            return name, config.takeover, config.transport
        case "pacing":
            return name, config.small_bundles, config.transport
        case _:
            return (name,)
