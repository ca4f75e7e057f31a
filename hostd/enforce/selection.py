"""Which backend to enforce with, made as the settings say."""

from functools import partial

from hostd.congestion.libbpf import BpfError
from hostd.enforce.base import Backend
from hostd.enforce.by_job.backend import ByJobBackend, Makers
from hostd.enforce.errors import CannotEnforce
from hostd.enforce.htb import HtbBackend
from hostd.enforce.observe import ObserveBackend
from hostd.enforce.pacing import PacingBackend
from hostd.enforce.probe import carrying, choose, probe
from hostd.enforce.settings import EnforcementSettings
from hostd.enforce.shim.gate import GateBackend
from hostd.enforce.shim.throttle import ThrottleBackend
from hostd.enforce.weighing.weigher import Unweighed, Weigher
from hostd.kernel.devices import link_speed_bps, read_devices
from hostd.kernel.netlink import Netlink
from hostd.pages.pages import Pages
from hostd.safety.undo_log import UndoLog
from paceline.flowcore.model.patterns import FlowId


def select_backend(settings: EnforcementSettings) -> tuple[str, str]:
    """The backend's name, and why it is none where `auto` finds none; raises CannotEnforce."""
    findings = {finding.name: finding for finding in probe()}
    name = settings.backend
    if name != "auto":
        if not findings[name].usable:
            advice = findings[name].advice or "see paceline probe"
            raise CannotEnforce(f"{name} does not work here: {findings[name].reason}; {advice}")
        return name, ""
    with Netlink() as netlink:
        devices = carrying(read_devices(netlink), settings.addresses)
    name = choose(findings.values(), devices, settings.takeover)
    why = (f"{one}: {findings[one].reason}" for one in ("htb", "pacing"))
    return name, "; ".join(why) if name == "observe" else ""


def make_backend(name: str, settings: EnforcementSettings, undo_log: UndoLog, pages: Pages) -> Backend:
    made = _make(name, settings, undo_log, pages)
    if name not in ("htb", "pacing"):
        return made
    makers, host_bps = others(name, settings, undo_log, pages), settings.host_bps or settings.nic_bps
    return ByJobBackend(made, makers, host_bps, partial(_is_throttled, pages))


def _is_throttled(pages: Pages, flow: FlowId) -> bool:
    """The job's net plugin sends the flow's bytes, and no socket of it carries them."""
    return bool(pages.jobs.peers_of(flow.job, flow.target)) and not pages.jobs.has_sockets(flow.job)


def others(name: str, settings: EnforcementSettings, undo_log: UndoLog, pages: Pages) -> Makers:
    """What makes the backends of jobs that this one does not reach: none, unless the setting is `auto`."""
    wanted = {"pacing", "throttle", "gate"} - {name} if settings.backend == "auto" else set()
    return {other: partial(_make, other, settings, undo_log, pages) for other in wanted}


def _make(name: str, settings: EnforcementSettings, undo_log: UndoLog, pages: Pages) -> Backend:
    match name:
        case "htb":
            return HtbBackend(
                undo_log,
                lambda device: min(link_speed_bps(device) or settings.nic_bps, settings.nic_bps),
                takeover=settings.takeover,
                transport=settings.transport,
            )
        case "pacing":
            return PacingBackend(
                undo_log,
                settings.nic_bps,
                small_tso_bursts=settings.small_tso_bursts,
                transport=settings.transport,
            )
        case "throttle":
            return ThrottleBackend(pages, settings.host_bps or settings.nic_bps)
        case "gate":
            return GateBackend(pages, settings.nic_bps, settings.host_bps or settings.nic_bps)
        case _:
            return ObserveBackend()


def make_weigher(name: str, settings: EnforcementSettings, undo_log: UndoLog) -> Weigher | Unweighed:
    """Beside this backend; jobs are not held up where the kernel refuses it."""
    if not settings.weighing:
        return Unweighed('background = "yield"')
    if name not in ("htb", "pacing"):
        return Unweighed(f"{name} controls no sockets")
    try:
        return Weigher(undo_log)
    except BpfError as error:
        return Unweighed(str(error))


def same_backend(name: str, one: EnforcementSettings, other: EnforcementSettings) -> bool:
    """Whether both settings make the same of this backend, of what a reload may change."""
    match name:
        case "htb":
            return (one.takeover, one.transport) == (other.takeover, other.transport)
        case "pacing":
            return (one.small_tso_bursts, one.transport) == (other.small_tso_bursts, other.transport)
        case _:
            return True
