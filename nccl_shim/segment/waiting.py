"""Bytes enqueued and not yet sent, on the wire. Law: pure; every iteration ends with nothing waiting.

The hook's own feeds count both sides in the same unit, so the difference is exact. NCCL's proxy counts what the network
carried, which the ring formula only approximates (protocols add flags, neighbours on the same host send nothing), so
there the ratio is learned, and the anchor moves whenever more was sent than expected: at the end of an iteration.
"""

from __future__ import annotations

from nccl_shim.segment.learning import Learned


class WaitingEstimate:
    """Of one process; `update` at every poll."""

    def __init__(self) -> None:
        self._ratio = 1.0
        self._anchor = (0, 0)

    def update(
        self,
        enqueued_bytes: int,
        expected_tx_bytes: int,
        tx_bytes: int,
        measured: bool,
        learned: Learned | None,
    ) -> int:
        """`measured`: tx comes from NCCL's proxy, not from completions."""
        if not measured:
            return max(0, expected_tx_bytes - tx_bytes)
        ratio = expected_tx_bytes / enqueued_bytes if enqueued_bytes else 1.0
        if learned is not None and learned.tx_bytes_per_iteration is not None and learned.bytes_per_iteration:
            ratio = learned.tx_bytes_per_iteration / learned.bytes_per_iteration
        if abs(ratio - self._ratio) > 0.01 * max(ratio, self._ratio):
            self._ratio = ratio
            self._anchor = (enqueued_bytes, tx_bytes) if learned is not None else (0, 0)
        enqueued_at, tx_at = self._anchor
        waiting = int(self._ratio * (enqueued_bytes - enqueued_at)) - (tx_bytes - tx_at)
        if waiting < 0:
            self._anchor = (enqueued_bytes, tx_bytes)
        return max(0, waiting)
