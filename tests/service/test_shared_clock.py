"""Time as the daemons share it: it follows the switch, and does not turn back for a small correction."""

from paceline.service.shared_clock import STEP_NS, SharedClock


class Machine:
    def __init__(self) -> None:
        self.steady = 1_000

    def clock(self) -> SharedClock:
        return SharedClock(lambda: 5_000_000_000, lambda: self.steady)


def told(clock: SharedClock, machine: Machine, offset_ns: int) -> None:
    """An exchange with a switch whose clock is `offset_ns` ahead of ours, without any delay."""
    own = clock.own_ns()
    clock.peer.observe(own, own + offset_ns, own + offset_ns, own)


def test_carried_on_by_the_monotonic_clock() -> None:
    machine = Machine()
    clock = machine.clock()
    assert clock.now_ns() == 5_000_000_000
    machine.steady += 7
    assert clock.now_ns() == clock.own_ns() == 5_000_000_007


def test_a_small_correction_holds_time() -> None:
    machine = Machine()
    clock = machine.clock()
    told(clock, machine, 0)
    before = clock.now_ns()
    machine.steady += 100
    for _ in range(20):
        told(clock, machine, -1_000_000)
    assert clock.now_ns() == before
    machine.steady += 2_000_000
    assert clock.now_ns() == clock.own_ns() - 1_000_000 > before


def test_a_large_one_is_a_step_either_way() -> None:
    machine = Machine()
    clock = machine.clock()
    clock.now_ns()
    told(clock, machine, -10 * STEP_NS)
    assert clock.now_ns() == clock.own_ns() - 10 * STEP_NS
    behind = machine.clock()
    told(behind, machine, 10 * STEP_NS)
    assert behind.now_ns() == behind.own_ns() + 10 * STEP_NS


def test_a_step_is_told_once_and_a_pause_is_none() -> None:
    machine = Machine()
    clock = machine.clock()
    assert clock.take_step() == 0
    machine.steady += 100 * STEP_NS
    assert clock.take_step() == 0, "the clock was not read for a while"
    told(clock, machine, 10 * STEP_NS)
    clock.now_ns()
    machine.steady += 7
    assert clock.take_step() == 10 * STEP_NS
    assert clock.take_step() == 0
