"""The result of a run, for programs and for people."""

from collections.abc import Sequence
from dataclasses import asdict

from bench.chaos.judge import SLOW, Outcome, Promise, outcomes, promises
from bench.chaos.plan import KINDS
from bench.chaos.run import Result, Setup
from bench.chaos.timeline import Performed

KIND_COLUMNS = ("", "faults", "slow", "lost s", "unpaced", "lifted", "enforced", "at pace")
JOB_COLUMNS = ("", "TCP ms", "paced ms", "iterations", "slow", "starts", "errors")


def repeat_command(setup: Setup) -> str:
    words = ["paceline bench chaos", f"--seed {setup.seed}", f"--duration {setup.duration_s:g}"]
    if setup.kinds != tuple(KINDS):
        words.append(f"--kinds {','.join(setup.kinds)}")
    if setup.synthetic:
        words.append("--synthetic")
    return " ".join(words)


def document(setup: Setup, result: Result, wall_s: float) -> dict[str, object]:
    seen = result.seen
    verdicts, found = promises(seen), outcomes(seen)
    return {
        "seed": setup.seed,
        "duration_s": setup.duration_s,
        "kinds": list(setup.kinds),
        "left_out": result.left_out,
        "slot_ms": 1e3 * seen.slot_s,
        "slow_is_more_than": SLOW,
        "repeat": repeat_command(setup),
        "promises": [{"promise": one.name, "kept": one.kept, "broken": list(one.broken)} for one in verdicts],
        "violations": [f"{one.name}: {what}" for one in verdicts for what in one.broken],
        "jobs": job_documents(result),
        "by_kind": [kind_document(kind, rows) for kind, rows in by_kind(seen.faults, found).items()],
        "faults": [_fault(done, one) for done, one in zip(seen.faults, found, strict=True)],
        "daemon_ends": [f"{at_s:.1f} s: {what}" for at_s, what in seen.ended],
        "machine_stalled_percent": result.stalled_percent,
        "wall_s": wall_s,
    }


def job_documents(result: Result) -> list[dict[str, object]]:
    return [
        {
            "name": name,
            "hosts": list(job.hosts),
            "tcp_iteration_s": job.tcp_iteration_s,
            "paced_iteration_s": job.paced_iteration_s,
            "iterations": len(job.iterations),
            "slow_iterations": sum(one.took_s > SLOW * job.tcp_iteration_s for one in job.iterations),
            "starts": job.starts,
            "errors": [what for _, what in job.errors],
        }
        for name, job in result.seen.jobs.items()
    ]


def by_kind(faults: Sequence[Performed], found: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """In the order of the table of kinds."""
    kinds: dict[str, list[Outcome]] = {kind: [] for kind in KINDS}
    for done, one in zip(faults, found, strict=True):
        kinds[done.fault.kind].append(one)
    return {kind: rows for kind, rows in kinds.items() if rows}


def kind_document(kind: str, rows: Sequence[Outcome]) -> dict[str, object]:
    """Times are the worst of those that came before the next fault; `open` counts those that did not, which may have
    been longer: a worst time without that number would flatter."""
    return {
        "kind": kind,
        "what": KINDS[kind].what,
        "faults": len(rows),
        "slow_iterations": sum(one.slow_iterations for one in rows),
        "lost_s": round(sum(one.lost_s for one in rows), 3),
        "unpaced_s": round(sum(one.unpaced_s for one in rows), 3),
        "lifted_s": _worst([one.lifted_s for one in rows]),
        "enforced_again_s": _worst([one.enforced_again_s for one in rows]),
        "usual_pace_s": _worst([one.usual_pace_s for one in rows]),
        "enforced_again_open": sum(one.enforced_again_s is None for one in rows),
        "usual_pace_open": sum(one.usual_pace_s is None for one in rows),
    }


def _worst(values: Sequence[float | None]) -> float | None:
    return max((round(value, 3) for value in values if value is not None), default=None)


def _fault(done: Performed, outcome: Outcome) -> dict[str, object]:
    planned = asdict(done.fault)
    del planned["chance"]
    measured = {key: value if value is None else round(value, 3) for key, value in asdict(outcome).items()}
    return {**planned, "begin_s": round(done.begin_s, 3), "note": done.note, **measured}


def kind_rows(result: Result) -> list[tuple[str, ...]]:
    keys = ("faults", "slow_iterations", "lost_s", "unpaced_s", "lifted_s")
    documents = [kind_document(*item) for item in by_kind(result.seen.faults, outcomes(result.seen)).items()]
    return [
        (
            str(one["kind"]),
            *(_text(one[key]) for key in keys),
            *(_with_open(one[f"{key}_s"], one[f"{key}_open"]) for key in ("enforced_again", "usual_pace")),
        )
        for one in documents
    ]


def _with_open(value: object, still_open: object) -> str:
    return f"{_text(value)} +{still_open}" if still_open else _text(value)


def job_rows(result: Result) -> list[tuple[str, ...]]:
    return [
        (
            str(one["name"]), f"{1e3 * float(str(one['tcp_iteration_s'])):.0f}",
            f"{1e3 * float(str(one['paced_iteration_s'])):.0f}", str(one["iterations"]), str(one["slow_iterations"]),
            str(one["starts"]), str(len(result.seen.jobs[str(one["name"])].errors)),
        )
        for one in job_documents(result)
    ]  # fmt: skip


def _text(value: object) -> str:
    return "–" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


def verdict_lines(verdicts: Sequence[Promise]) -> list[str]:
    lines = []
    for one in verdicts:
        lines.append(f"{'kept  ' if one.kept else 'BROKEN'} {one.name}")
        lines += [f"       {what}" for what in one.broken]
    return lines
