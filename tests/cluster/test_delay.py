"""Dally's timers and tuner, step by step (Algorithms 1 and 2)."""

from statistics import fmean, stdev

import pytest

from paceline.cluster.delay import FULLY_CONSOLIDATED, HOUR_S, MANUAL, NO_WAIT, AutoTuner, Timers
from paceline.cluster.tiers import Tier

MACHINE, RACK, NETWORK = Tier


def accepted(timers: Timers, waited_h: float) -> list[Tier]:
    return [tier for tier in Tier if timers.accepts(tier, waited_h * HOUR_S)]


def test_tiers_open_one_after_the_other() -> None:
    assert accepted(MANUAL, 0) == [MACHINE]
    assert accepted(MANUAL, 11.9) == [MACHINE]
    assert accepted(MANUAL, 12) == [MACHINE, RACK]
    assert accepted(MANUAL, 23.9) == [MACHINE, RACK]
    assert accepted(MANUAL, 24) == [MACHINE, RACK, NETWORK]
    assert accepted(NO_WAIT, 0) == [MACHINE, RACK, NETWORK]
    assert accepted(FULLY_CONSOLIDATED, 1e6) == [MACHINE]


def test_no_job_waits_for_a_tier_it_can_never_have() -> None:
    assert accepted(FULLY_CONSOLIDATED.for_best(RACK), 0) == [MACHINE, RACK]
    assert accepted(FULLY_CONSOLIDATED.for_best(NETWORK), 0) == [MACHINE, RACK, NETWORK]
    assert MANUAL.for_best(RACK) == Timers(0.0, 24 * HOUR_S)


def test_the_tuner_step_by_step() -> None:
    tuner = AutoTuner(history_s=10 * HOUR_S)
    assert tuner.timers(8, 0.0) == MANUAL  # nothing known yet
    tuner.update_demand_delay(MACHINE, 600.0, 8, now_s=0.0)
    assert tuner.timers(8, 0.0) == Timers(600.0, MANUAL.rack_s)  # one value has no deviation
    tuner.update_demand_delay(MACHINE, 1200.0, 8, now_s=HOUR_S)
    tuner.update_demand_delay(RACK, 5000.0, 8, now_s=HOUR_S)
    tuner.update_demand_delay(RACK, 7000.0, 8, now_s=2 * HOUR_S)
    tuned = tuner.timers(8, 2 * HOUR_S)
    assert tuned.machine_s == pytest.approx(900.0 + 2 * stdev([600.0, 1200.0]))
    assert tuned.rack_s == pytest.approx(fmean([5000.0, 7000.0]) + 2 * stdev([5000.0, 7000.0]))
    assert tuner.timers(4, 2 * HOUR_S) == MANUAL  # another demand learns for itself
    later = tuner.timers(8, 10.5 * HOUR_S)  # the first value has left the window
    assert later.machine_s == 1200.0
    assert tuner.timers(8, 13 * HOUR_S) == MANUAL  # all have


def test_the_rack_opens_no_earlier_than_the_machine_closes() -> None:
    tuner = AutoTuner()
    tuner.update_demand_delay(MACHINE, 900.0, 2, now_s=0.0)
    tuner.update_demand_delay(RACK, 100.0, 2, now_s=0.0)
    assert tuner.timers(2, 0.0) == Timers(900.0, 900.0)
