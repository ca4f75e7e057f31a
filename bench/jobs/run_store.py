"""Finished runs are stored, so that no run is made twice.

One JSON line per run, written when the run is over, so that an interrupted experiment goes on where it was. The key
of a run covers all that decides it: scenario, conditions, control, and the number of the repeat. A line with a failure
withdraws an earlier line of the same key; a run that was disturbed and kept nevertheless says so. Each line names the
commit that made it: the code may have changed in between, and a result says so. Failures, disturbances and commits are
reported of the runs that were asked for only: a file may hold others, under other controls or of scenarios that have
changed since.
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

from bench.jobs.control import DaemonCpu
from bench.jobs.run import Conditions, JobsRun
from paceline.flowcore.model.scenario import Scenario
from paceline.sim.jobs import TrainingJob

Observations = Any  # JSON: what an observer noted during the run


class RunStore:
    """In a file, or with no path only in memory."""

    def __init__(self, path: Path | None = None, commit: str | None = None) -> None:
        self._path, self._commit = path, commit
        self._lines: list[dict[str, Any]] = []
        self._runs: dict[str, dict[str, Any]] = {}  # the lines that no failure has withdrawn
        self._asked: set[str] = set()
        if path is not None and path.exists():
            text = path.read_text(encoding="utf-8")
            for line in text.splitlines():
                # A line may have been cut short by a crash, or written by another version.
                with suppress(ValueError, KeyError, TypeError, AttributeError):
                    self._take(json.loads(line))
            if text and not text.endswith("\n"):
                self._append("\n")
        self._earlier = len(self._lines)

    @property
    def failures(self) -> list[str]:
        return [f"{line['what']}: {line['failed']}" for line in self._of_asked(self._lines) if "failed" in line]

    @property
    def disturbances(self) -> list[str]:
        """Of runs that were kept nevertheless."""
        return [
            f"{run['what']}: {run['although']}" for run in self._of_asked(self._runs.values()) if run.get("although")
        ]

    @property
    def earlier_s(self) -> float:
        """What the runs took that were in the file already, with those that failed."""
        return float(sum(line.get("took_s", 0.0) for line in self._of_asked(self._lines[: self._earlier])))

    def commits(self) -> list[str]:
        """Of the runs found and made."""
        return sorted({run["commit"] for run in self._of_asked(self._runs.values()) if run["commit"]})

    def _of_asked(self, lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        return [line for line in lines if line["key"] in self._asked]

    def find(self, key: str, scenario: Scenario, seed: int) -> tuple[JobsRun, Observations] | None:
        self._asked.add(key)
        entry = self._runs.get(key)
        return None if entry is None else (_restored(entry, scenario, seed), entry["seen"])

    def save(
        self,
        key: str,
        what: str,
        run: JobsRun,
        observations: Observations,
        took_s: float = 0.0,
        disturbance: str | None = None,
    ) -> None:
        """`took_s` is all of it, from building the network to its end; `disturbance` is why the run is doubtful."""
        ends_ns = {job.spec.name: list(job.iteration_ends_ns) for job in run.jobs}
        self._write(
            {
                "key": key,
                "what": what,
                "commit": self._commit,
                "control": run.control,
                "iteration_ends_ns": ends_ns,
                "lasted_ns": run.lasted_ns,
                "link_bytes": dict(run.link_bytes),
                "cross_traffic_bytes": list(run.cross_traffic_bytes),
                "cpu": asdict(run.cpu),
                "fail_opens": run.fail_opens,
                "stalled_percent": run.stalled_percent,
                "starts_ns": dict(run.starts_ns),
                "seen": observations,
                "took_s": round(took_s, 3),
                "although": disturbance,
            }
        )

    def save_failure(self, key: str, what: str, reason: str, took_s: float = 0.0) -> None:
        failed = {"key": key, "what": what, "failed": reason, "commit": self._commit}
        self._write(failed | {"took_s": round(took_s, 3)})

    def _write(self, entry: dict[str, Any]) -> None:
        self._append(json.dumps(entry, allow_nan=False) + "\n")
        self._asked.add(entry["key"])
        self._take(entry)

    def _append(self, text: str) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(text)

    def _take(self, entry: dict[str, Any]) -> None:
        if not {"key", "what", "commit"} <= entry.keys():
            raise KeyError
        if "failed" in entry:
            self._runs.pop(entry["key"], None)
        else:
            self._runs[entry["key"]] = entry
        self._lines.append(entry)


def run_key(scenario: Scenario, conditions: Conditions, control: str, number: int) -> str:
    described = f"{scenario!r} {conditions!r} {control} {number}"  # frozen dataclasses: the same in every process
    return blake2b(described.encode(), digest_size=12).hexdigest()


def _restored(entry: dict[str, Any], scenario: Scenario, seed: int) -> JobsRun:
    jobs = tuple(TrainingJob(spec, seed) for spec in scenario.jobs)
    for job in jobs:
        job.iteration_ends_ns = entry["iteration_ends_ns"][job.spec.name]
    cross = tuple(entry["cross_traffic_bytes"])
    return JobsRun(
        entry["control"],
        jobs,
        entry["lasted_ns"],
        entry["link_bytes"],
        cross,
        DaemonCpu(**entry["cpu"]),
        entry.get("fail_opens", 0),
        entry.get("stalled_percent"),
        entry.get("starts_ns", {}),
    )
