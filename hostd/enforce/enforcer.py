"""Rates into the kernel, on a lease: backend, undo log and guardian as one thing that can be begun anew.

Without `enforcing` nothing is set and nothing needs a lease. With it, the lease is taken before the first change, and a
revocation (hostd hung, an operator released it) costs the flows their limits for a moment and nothing else: the old
lease is closed, a new one is taken, and what is attached now is attached again.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from hostd.enforce.base import Backend, OfJobs
from hostd.enforce.by_job.backend import ByJobBackend, Choice
from hostd.enforce.errors import CannotEnforce, EnforcementError, ErrorCounts, ErrorKind, not_restored
from hostd.enforce.observe import ObserveBackend
from hostd.enforce.selection import make_backend, make_weigher, others, same_backend, select_backend
from hostd.enforce.settings import EnforcementSettings
from hostd.enforce.weighing.weigher import Unweighed, Weigher
from hostd.kernel.sockets import DataSocket
from hostd.kernel.tcp_info import TcpCounters
from hostd.pages.pages import Pages
from hostd.safety.lease import Lease
from hostd.safety.undo_log import BadUndoLog, Revoked, UndoLog, release
from paceline.flowcore.messages.events import Limit
from paceline.flowcore.model.job_names import flow_log_fields
from paceline.flowcore.model.patterns import FlowId
from paceline.service.log_rate_limit import LogRateLimit

_log = logging.getLogger(__name__)


class Enforcer:
    def __init__(self, settings: EnforcementSettings, slot_ns: int) -> None:
        """Raises CannotEnforce."""
        self.fail_opens = 0
        self.errors = ErrorCounts()
        self._settings, self._slot_ns = settings, slot_ns
        self.pages = Pages(settings.page_directory or settings.undo_log_path.with_name("pages"), slot_ns)
        self._attached: dict[FlowId, tuple[DataSocket, ...]] = {}
        self._limits: dict[FlowId, Limit] = {}
        self._log_limit = LogRateLimit()
        self._lease: Lease | None = None
        self.backend: Backend = ObserveBackend()
        self.released = False  # an operator lifted everything
        self.why_none = ""  # nothing is enforced, though it should be
        self._weigher: Weigher | Unweighed = Unweighed("nothing is enforced")
        self.of_jobs: OfJobs = frozenset  # the connections of all jobs on this host
        self._open()

    def choice(self, job: str) -> Choice:
        """The job's backend, and why."""
        if isinstance(self.backend, ByJobBackend):
            return self.backend.choice(job)
        said = self._settings.backend == self.backend.name
        return Choice(self.backend.name, f'backend = "{self.backend.name}"' if said else self.why_none)

    @property
    def why_unweighed(self) -> str:
        """Why no socket counts for several beside cross traffic; nothing where they can."""
        return self._weigher.why

    @property
    def others_load_bps(self) -> float:
        """Cross traffic's on the host's own NICs together, as far as the backend sees it."""
        return sum(found.load_bps for found in self.backend.others().values())

    @property
    def meets_foreign(self) -> bool:
        """Some of it is of no job."""
        return any(found.foreign for found in self.backend.others().values())

    @property
    def guardian_pid(self) -> int | None:
        return self._lease.guardian_pid if self._lease else None

    def attach(self, flow: FlowId, sockets: tuple[DataSocket, ...]) -> None:
        self._attached[flow] = sockets
        self._note(flow, "attached", sockets=len(sockets))
        with self._counting_errors():
            self.errors.add(self._leased().attach(flow, sockets))
            self.errors.add(self._weigher.attach(flow, sockets))

    def detach(self, flow: FlowId) -> None:
        self._attached.pop(flow, None)
        self._limits.pop(flow, None)
        self._note(flow, "detached")
        with self._counting_errors():
            self.errors.add(self._leased().detach(flow))
            self.errors.add(self._weigher.detach(flow))

    def apply(self, limits: Sequence[Limit]) -> None:
        self._limits |= {limit.flow: limit for limit in limits}
        with self._counting_errors():
            self.errors.add(self._leased().apply(limits))
            self.errors.add(self._weigher.apply(limits))

    def beat(self) -> None:
        """Once per slot: the guardian hears that hostd lives, or hostd hears that its lease was revoked."""
        if self._lease is not None:
            with self._counting_errors():
                backend = self._leased()
                self._lease.beat()
                self.errors.add(backend.watch_others(self.of_jobs))
        self.pages.beat()

    def refresh(self) -> None:
        """About once a second: what could not be done before is tried again, a lease first of all."""
        self.pages.remove_ended()
        if self._settings.enforcing and self._lease is None and not self.released:
            self._open_or_observe()
            if self._lease is not None:
                self._set_again()
        with self._counting_errors():
            self.errors.add(self._leased().refresh())
            self.errors.add(self._weigher.refresh())
            if self._lease is not None:
                self.errors.add(not_restored(self._lease.undo_log.take_back_owed()))

    def watch_losses(self, read: Mapping[int, TcpCounters]) -> None:
        """Several times a second, by what was last read of sockets, by cookie: those that lose packets are helped,
        those that no longer do are as they were."""
        with self._counting_errors():
            self.errors.add(self._leased().watch_losses(read))

    def read_back(self) -> dict[FlowId, Limit]:
        try:
            return self.backend.read_back()
        except OSError as error:
            self.errors.add([EnforcementError.of(error, "cannot read back")])
            return {}

    def release(self) -> dict[str, str]:
        """Lifts everything and sets nothing any more, until the next start or reload; returns what is left, by key."""
        self._close()
        self.released = True
        self.fail_opens += 1
        return self._take_back()

    def reconfigure(self, settings: EnforcementSettings) -> None:
        """Another mode or backend; raises CannotEnforce and goes on as before if that does not work here.

        Whether it works is asked before anything is lifted, and where nothing would be different nothing is.
        """
        before = self._settings
        if settings.enforcing:
            name, _ = select_backend(settings)
            if self._lease is not None and name == self.backend.name and same_backend(name, before, settings):
                self._settings = settings
                if isinstance(self.backend, ByJobBackend):
                    self.errors.add(self.backend.use(others(name, settings, self._lease.undo_log, self.pages)))
                return
        self._settings = settings
        self._close()

        try:
            self._open()
            self.released = False
        except CannotEnforce:
            self._settings = before
            if not self.released:
                self._open_or_observe()
            raise
        finally:
            self._set_again()

    def close(self) -> None:
        self._close()
        self.pages.close()

    # ---- The lease ----

    def _open(self) -> None:
        settings = self._settings
        if not settings.enforcing:
            self.errors.add(not_restored(self._take_back(), "left behind in "))
            return
        try:
            undo_log = UndoLog(settings.undo_log_path)
            self.errors.add(not_restored(undo_log.leftovers, "left behind in "))
            self._lease = Lease(undo_log, self._slot_ns)
            name, why_none = select_backend(settings)
            _log.info("enforcing with %s", name)
            self.why_none = 'backend = "observe"' if name == settings.backend == "observe" else why_none
            if why_none:
                reason = f"no backend works here, see paceline probe: {why_none}"
                self.errors.add([EnforcementError(ErrorKind.OTHER, reason)])
            self._weigher = make_weigher(name, settings, undo_log)
            self.backend = make_backend(name, settings, undo_log, self.pages)
        except (OSError, Revoked) as error:
            self._close()
            raise CannotEnforce(f"cannot take a lease on the kernel: {error}", ErrorKind.LEASE) from error
        except CannotEnforce:
            self._close()
            raise

    def _take_back(self) -> dict[str, str]:
        """What is in the undo log, also that of a predecessor that died; returns what is left, by key."""
        path = self._settings.undo_log_path
        try:
            return release(path)
        except (BadUndoLog, OSError) as error:
            return {str(path): str(error)}

    def _close(self) -> None:
        if self._lease is not None:
            lease, self._lease = self._lease, None
            backend, self.backend = self.backend, ObserveBackend()
            self.errors.add(backend.close())
            self.errors.add(not_restored(lease.close(), "could not restore "))
            weigher, self._weigher = self._weigher, Unweighed("nothing is enforced")
            weigher.close()  # sockets have their own control again

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
            self.why_none = str(error)
            self._log_limit.log(_log, logging.ERROR, "no lease", "observing for now: %s", error)

    def _set_again(self) -> None:
        both = (self.backend, self._weigher)
        steps = [partial(one.attach, flow, sockets) for flow, sockets in self._attached.items() for one in both]
        for step in [*steps, *(partial(one.apply, list(self._limits.values())) for one in both)]:
            try:
                if self._lease is not None:
                    self._lease.beat()  # however long all of them take
                self.errors.add(step())
            except (OSError, CannotEnforce, Revoked) as error:  # revoked once more: the next beat begins anew
                self.errors.add([EnforcementError.of(error)])

    def _leased(self) -> Backend:
        """The backend; raises Revoked if the lease was: nothing is where hostd thinks it is any more."""
        if self._lease is not None:
            self._lease.undo_log.check()
            if not self._lease.begun:
                self._lease.beat()
        return self.backend

    @contextmanager
    def _counting_errors(self) -> Iterator[None]:
        """A revocation begins anew; what the kernel refuses outright is an error like any."""
        try:
            yield
        except Revoked as error:
            self._begin_anew(str(error))
        except (OSError, CannotEnforce) as error:
            self.errors.add([EnforcementError.of(error)])

    def _note(self, flow: FlowId, what: str, **more: object) -> None:
        fields = {**flow_log_fields(flow), "backend": self.backend.name, **more}
        self._log_limit.log(_log, logging.INFO, (flow, what), "flow %s", what, extra=fields)
