"""Processes of all jobs as rows: for people a table, for programs one object. Law: pure; reads no file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nccl_shim.segment.layout import Kind
from nccl_shim.segment.reader import ProcessView
from nccl_shim.segment.snapshot import ProcessSnapshot

if TYPE_CHECKING:
    from rich.table import Table


def as_json(views: Sequence[ProcessView], refused: dict[str, str]) -> dict[str, Any]:
    """The object that `paceline jobs --json` prints."""
    return {"processes": [process_row(view) for view in views], "refused": refused}


def process_row(view: ProcessView) -> dict[str, Any]:
    snapshot, counter, learned = view.snapshot, view.snapshot.iteration_counter, view.learned
    return {
        "job": snapshot.job,
        "rank": snapshot.global_rank if snapshot.global_rank >= 0 else None,
        "world_size": snapshot.world_size or None,
        "role": snapshot.role.name.lower(),
        "pid": snapshot.pid,
        "host_pid": view.host_pid,
        "registered": view.registered,
        "alive": view.alive,
        "finished": snapshot.finished,
        "sources": list(snapshot.sources),
        "native_writer": snapshot.native_writer,
        "age_s": view.age_ns / 1e9,
        "iteration": counter.iteration if counter else None,
        "last_iteration_bytes": counter.last_enqueued_bytes if counter else None,
        "last_iteration_s": counter.last_duration_ns / 1e9 if counter else None,
        "waiting_bytes": view.waiting_bytes,
        "sent_bytes": view.iteration_sent_bytes,
        "enqueued_bytes": view.iteration_enqueued_bytes,
        "total_enqueued_bytes": snapshot.enqueued_bytes,
        "total_sent_bytes": snapshot.tx_bytes,
        "learned_iteration_bytes": learned.bytes_per_iteration if learned else None,
        "learned_iteration_s": learned.iteration_ns / 1e9 if learned else None,
        "steady": learned.steady if learned else None,
        "peers": peers(snapshot),
        "dropped_records": snapshot.dropped_records,
    }


def peers(snapshot: ProcessSnapshot) -> list[dict[str, Any]]:
    """Traffic by peer; a collective's peer is None (all of them) until NCCL's proxy names one."""
    by_peer: dict[int, dict[str, int]] = {}
    for flow in snapshot.flows:
        sums = by_peer.setdefault(flow.peer, {"enqueued_bytes": 0, "sent_bytes": 0, "received_bytes": 0})
        sums["enqueued_bytes"] += flow.enqueued_bytes if flow.kind.outbound else 0
        sums["sent_bytes"] += flow.tx_bytes
        sums["received_bytes"] += flow.rx_bytes
    return [{"peer": peer if peer >= 0 else None, **sums} for peer, sums in sorted(by_peer.items())]


def as_table(views: Sequence[ProcessView]) -> Table:
    """The table that people see; fits 80 columns while names are short."""
    from rich.table import Table  # here: rows and JSON work without it
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("job", "rank", "peer", "iter", "waiting", "sent", "per iter", "time", "age"):
        left = name in ("job", "peer")
        table.add_column(name, justify="left" if left else "right", no_wrap=True, overflow="ellipsis")
    for view in views:
        row = process_row(view)
        learned_s = row["learned_iteration_s"]
        table.add_row(
            Text(row["job"]),  # as it is: a name may look like markup
            _rank_text(row),
            _peer_names(view.snapshot),
            "?" if row["iteration"] is None else str(row["iteration"]),
            bytes_text(row["waiting_bytes"]),
            bytes_text(row["sent_bytes"]),
            bytes_text(row["learned_iteration_bytes"]) + ("" if row["steady"] in (True, None) else " ~"),
            "learning" if learned_s is None else f"{learned_s * 1e3:.0f} ms",
            f"{row['age_s']:.1f} s" if row["alive"] else "ended",
        )
    return table


def _rank_text(row: dict[str, Any]) -> str:
    rank = "?" if row["rank"] is None else str(row["rank"])
    server = " server" if row["role"] == "server" else ""
    return rank + (f"/{row['world_size']}" if row["world_size"] else "") + server


def bytes_text(size_bytes: int | None) -> str:
    """Decimal units, as network rates use."""
    if size_bytes is None:
        return "learning"
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes} B"


def _peer_names(snapshot: ProcessSnapshot) -> str:
    known = sorted({flow.peer for flow in snapshot.flows if flow.peer >= 0})
    if not known:
        return "all" if any(flow.kind is Kind.COLLECTIVE for flow in snapshot.flows) else "-"
    text = ",".join(map(str, known[:4]))
    return text + (",…" if len(known) > 4 else "")
