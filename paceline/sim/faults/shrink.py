"""A failing history made small: faults, jobs and hosts are left out, and times shortened, as long as the same rule
still fails."""

from collections.abc import Iterator
from dataclasses import replace

from paceline.sim.faults.draw import SHAPES
from paceline.sim.faults.history import Fault, History, Kind
from paceline.sim.faults.run import Verdict, check

MOST_RUNS = 400


def shrink(failing: Verdict) -> Verdict:
    """The smallest found in MOST_RUNS runs that fails by the same rule."""
    runs = 0
    improved = True
    while improved:
        improved = False
        for smaller in _smaller(failing.history):
            if runs >= MOST_RUNS:
                return failing
            runs += 1
            verdict = check(smaller)
            if verdict.rule == failing.rule:
                failing, improved = verdict, True
                break
    return failing


def _smaller(history: History) -> Iterator[History]:
    for fault in history.faults:
        yield history.without(fault=fault)
    for job in history.jobs:
        if len(history.jobs) > 1:
            yield history.without(job=job)
    links = len(history.build().links)
    for shape in dict.fromkeys(SHAPES[history.topology]):
        smaller = replace(history, shape=shape)
        if len(smaller.build().links) < links and _fits(smaller):
            yield smaller
    for number, fault in enumerate(history.faults):
        for shorter in _shorter(fault):
            yield replace(history, faults=(*history.faults[:number], shorter, *history.faults[number + 1 :]))


def _shorter(fault: Fault) -> Iterator[Fault]:
    if fault.notice_slots:
        yield replace(fault, notice_slots=0.0)
    if fault.for_slots > 1.0:
        yield replace(fault, for_slots=round(fault.for_slots / 2, 2))


def _fits(history: History) -> bool:
    """Whether all that jobs and faults name is there."""
    topology = history.build()
    there = {"", *topology.hosts, *topology.switches, *(job.name for job in history.jobs)}
    named = {host for job in history.jobs for host in (*job.workers, *job.servers)}
    for fault in history.faults:
        named |= {fault.node, fault.peer if fault.kind in (Kind.CUT, Kind.LATE) else ""}
    return named <= there
