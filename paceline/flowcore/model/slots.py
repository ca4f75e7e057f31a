"""Slots: time cut into pieces of equal length, counted from an epoch that all hosts and switches share.

    slot t covers [epoch + t·t̂, epoch + (t+1)·t̂)          t̂ = length_ns

Slot indices are absolute, so two nodes that agree on the epoch mean the same slot by the same number, and a
plan stays valid while time passes. The paper's "slot 0" is `index(now_ns)`; its K slots are the `horizon` from there.

Everything is integer arithmetic: a float would drift off the boundary after days of nanoseconds. Division
floors, so times before the epoch fall into slots -1, -2, … with no special case.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SlotClock:
    """Maps times to slots; it does not know what time it is."""

    length_ns: int  # t̂
    horizon: int  # K, the number of slots a plan covers
    epoch_ns: int = 0

    def __post_init__(self) -> None:
        if self.length_ns <= 0:
            raise ValueError(f"slot length must be above 0 ns, not {self.length_ns}")
        if self.horizon < 1:
            raise ValueError(f"horizon must be at least 1 slot, not {self.horizon}")

    def index(self, now_ns: int) -> int:
        """The slot that contains this time."""
        return (now_ns - self.epoch_ns) // self.length_ns

    def start_ns(self, slot: int) -> int:
        """First nanosecond of a slot."""
        return self.epoch_ns + slot * self.length_ns

    def end_ns(self, slot: int) -> int:
        """First nanosecond after a slot."""
        return self.start_ns(slot + 1)

    def next_start_ns(self, now_ns: int) -> int:
        """The next boundary, strictly after now: a timer armed for it can never fire twice for one slot."""
        return self.end_ns(self.index(now_ns))

    def remaining_ns(self, now_ns: int) -> int:
        """What is left of the current slot, from `length_ns` at its start down to 1."""
        return self.next_start_ns(now_ns) - now_ns
