"""Controls by name, and whether this kernel has what they need."""

from collections.abc import Iterable

from bench.jobs.control import Control, ControlError
from bench.jobs.daemon_control import LIMITLESS_MODES, DaemonControl
from bench.jobs.tcp_control import MLTCP, TCP, MltcpControl, TcpControl
from bench.testbed.network import lacks_congestion_control
from paceline.flowcore.model.background import TRAINING_FIRST, YIELD
from paceline.flowcore.policy import FOR_DAEMONS

BACKENDS = {
    # What cross traffic gets beside jobs; `paceline` itself is fair.
    "paceline-yield": DaemonControl("paceline", name="paceline-yield", background=YIELD),
    "paceline-first": DaemonControl("paceline", name="paceline-first", background=TRAINING_FIRST),
    # The least time from a job's start to its end, of jobs that say how many iterations they will do.
    "paceline-jct": DaemonControl("paceline:jct", name="paceline-jct"),
    "paceline-jct-first": DaemonControl("paceline:jct", name="paceline-jct-first", background=TRAINING_FIRST),
    "paceline-gate": DaemonControl("paceline", backend="gate", name="paceline-gate"),
    # Policies that stop no burst, as the gate cannot.
    "cassini-gate": DaemonControl("cassini", backend="gate", name="cassini-gate"),
    "srsf1-gate": DaemonControl("srsf1", backend="gate", name="srsf1-gate"),
    "adadual-gate": DaemonControl("adadual", backend="gate", name="adadual-gate"),
    "paceline-throttle": DaemonControl("paceline", backend="throttle", name="paceline-throttle", throttled=True),
    # The same transport, held instead of paced; and unpaced: what it costs by itself.
    "paceline-net-gate": DaemonControl("paceline", backend="gate", name="paceline-net-gate", throttled=True),
    "observe-throttle": DaemonControl("paceline", mode="observe", name="observe-throttle", throttled=True),
}


def control_named(name: str) -> Control:
    """Raises ControlError for a name that is no control's."""
    if name in TCP:
        return TcpControl(name)
    if name in MLTCP:
        return MltcpControl(name)
    if name in LIMITLESS_MODES:
        return DaemonControl("paceline", mode=name)
    if name in FOR_DAEMONS:
        return DaemonControl(name)
    if name in BACKENDS:
        return BACKENDS[name]
    raise ControlError(
        f"no control {name!r}; expected one of {', '.join((*TCP, *MLTCP, *FOR_DAEMONS, *LIMITLESS_MODES, *BACKENDS))}"
    )


def kernel_lacks(controls: Iterable[Control]) -> dict[str, str]:
    """Of the controls that this kernel cannot run, by name, the reason."""
    lacks = {
        control.name: control.lacks()
        if isinstance(control, MltcpControl)
        else lacks_congestion_control(control.congestion_control)
        for control in controls
    }
    return {name: reason for name, reason in lacks.items() if reason is not None}


def require_kernel(controls: Iterable[Control]) -> None:
    """Raises ControlError unless this kernel can run all of them."""
    for name, reason in kernel_lacks(controls).items():
        raise ControlError(f"control {name!r}: {reason}")
