"""The staircase: how arrivals are judged, and a short walk on the real kernel."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.micro.rate import SLOT_NS, Curve, Setup, Step, error, measure_rate, settle_ms
from paceline.flowcore.model.units import NS_PER_MS, transfer_bytes

pytestmark = [pytest.mark.root, pytest.mark.slow]

RATE_BPS = 400e6
STEP = Step(1_000 * NS_PER_MS, 1_000 * NS_PER_MS + SLOT_NS, RATE_BPS)
PACKET_NS = 50_000


def arriving(before_bps: float, after_bps: float, late_ns: int = 0) -> Curve:
    """At one rate until the change takes effect, at another from then on."""
    curve, total = Curve([], []), 0.0
    for at_ns in range(STEP.start_ns - SLOT_NS, STEP.end_ns + 1, PACKET_NS):
        total += transfer_bytes(before_bps if at_ns < STEP.start_ns + late_ns else after_bps, PACKET_NS)
        curve.at_ns.append(at_ns)
        curve.total_bytes.append(round(total))
    return curve


def test_what_arrives_as_asked_has_no_error_and_is_settled_at_once() -> None:
    curve = arriving(RATE_BPS, RATE_BPS)
    assert error(STEP, curve) < 1e-3
    assert settle_ms(STEP, curve) == 0


@pytest.mark.parametrize("late_ms", [2, 5, 20])
def test_a_late_change_counts_for_as_long_as_it_is_late(late_ms: int) -> None:
    curve = arriving(2 * RATE_BPS, RATE_BPS, late_ms * NS_PER_MS)
    assert error(STEP, curve) == pytest.approx(late_ms / 60, abs=0.005)
    assert late_ms - 1 <= settle_ms(STEP, curve) <= late_ms


@pytest.mark.parametrize("rate_bps", [RATE_BPS, 12.5e6])
@pytest.mark.parametrize("factor", [0.0, 0.5, 1.3])
def test_a_wrong_rate_never_settles(factor: float, rate_bps: float) -> None:
    step, curve = STEP._replace(rate_bps=rate_bps), arriving(rate_bps, factor * rate_bps)
    assert error(step, curve) == pytest.approx(abs(factor - 1), abs=0.005)
    assert settle_ms(step, curve) == SLOT_NS / NS_PER_MS


def test_bundles_grow_with_the_link_up_to_the_kernels_largest() -> None:
    """TCP's own last a millisecond: on a fast link, small ones are over before a timer of the kernel can expire."""
    assert [Setup(1, link_gbps=gbps).bundle_bytes for gbps in (1.0, 5.0, 10.0)] == [8192, 40960, 65536]


@pytest.mark.parametrize("backend", ["htb", "pacing"])
def test_a_short_walk(backend: str) -> None:
    """Generous: other tests may have the machine; `paceline bench rate` on a quiet one is the measurement."""
    judged = measure_rate(backend, Setup(flows=2, rounds=1))
    assert judged["steps"] + judged["late_steps"] == 16
    assert judged["median_error_percent"] < 25


def test_the_command_without_root() -> None:
    """In a user namespace of its own, from a process that may do nothing."""
    command = [sys.executable, "-m", "paceline", "bench", "rate", "--backend", "htb", "--flows", "1", "--json"]
    drop = "import ctypes, os, sys; [ctypes.CDLL(None).prctl(24, cap) for cap in (12, 21)]"
    wrapper = [sys.executable, "-c", f"{drop}; os.execv(sys.argv[1], sys.argv[1:])", *command]
    root = Path(__file__).parents[3]
    done = subprocess.run(wrapper, cwd=root, capture_output=True, text=True, timeout=60, env=os.environ)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert {"median_error_percent", "p95_error_percent", "settle_ms_p95", "machine"} <= result.keys()
    assert result["median_error_percent"] < 25
