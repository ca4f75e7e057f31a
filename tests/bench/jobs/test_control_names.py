"""Controls are known by name."""

import pytest

from bench.jobs.control import ControlError
from bench.jobs.control_names import control_named
from bench.jobs.daemon_control import LIMITLESS_MODES
from bench.jobs.tcp_control import TCP
from paceline.flowcore.policy import FOR_DAEMONS


def test_controls_are_known_by_name() -> None:
    assert [control_named(name).congestion_control for name in TCP] == list(TCP)
    assert [control_named(name).name for name in FOR_DAEMONS] == list(FOR_DAEMONS)
    with pytest.raises(ControlError, match="expected one of reno") as refused:
        control_named("vegas")
    assert all(policy in str(refused.value) for policy in FOR_DAEMONS)


def test_the_modes_that_set_nothing_are_controls() -> None:
    for name in LIMITLESS_MODES:
        control = control_named(name)
        assert (control.name, control.congestion_control) == (name, "cubic")
