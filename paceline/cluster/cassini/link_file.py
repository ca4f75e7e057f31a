"""Jobs and the links they share, as a TOML file:

[[job]]
name = "vgg16"
iteration_ms = 255.0
phases = [[141.0, 114.0, 42.0]]      # start and length in ms, Gbit/s; as many as an iteration has

[[link]]
name = "tor1->spine"
capacity_gbps = 50.0
jobs = ["vgg16", "bert"]
"""

import tomllib
from pathlib import Path
from typing import Any

from paceline.flowcore.allocation.shifts.circle import Phase, Profile
from paceline.flowcore.allocation.shifts.plan import Link
from paceline.flowcore.model.fields import (
    Field,
    InputError,
    Value,
    list_of,
    number_from,
    printable_name,
    read_table,
    refuse_repeats,
)

LONGEST_MS = 1e6
FASTEST_GBPS = 1e5


def read_links(path: Path) -> dict[str, Link]:
    try:
        root = Value(str(path), "", tomllib.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise InputError(str(path), "the file", f"no TOML ({error})", "jobs and links in TOML") from None
    fields = {"job": Field(list_of(_job, "[[job]] tables")), "link": Field(list_of(_link, "[[link]] tables"))}
    top = read_table(root, fields)
    for tables in (root.at("job"), root.at("link")):
        refuse_repeats([table.at("name") for table in tables.items()], "a name of its own")
    profiles = dict(top["job"])
    links: dict[str, Link] = {}
    for table, (name, capacity_gbps, jobs) in zip(root.at("link").items(), top["link"], strict=True):
        for job in table.at("jobs").items():
            if job.found not in profiles:
                raise job.wrong(f"a job of this file: {', '.join(profiles)}")
        links[name] = Link(capacity_gbps, {job: profiles[job] for job in jobs})
    return links


def _job(value: Value) -> tuple[str, Profile]:
    found = read_table(
        value,
        {
            "name": Field(printable_name),
            "iteration_ms": Field(number_from(0.1, LONGEST_MS)),
            "phases": Field(list_of(_phase, "[start ms, length ms, Gbit/s]")),
        },
    )
    profile = Profile(found["iteration_ms"], found["phases"])
    for phase in value.at("phases").items():
        start_ms, length_ms = (float(item.found) for item in phase.items()[:2])  # type: ignore[arg-type]
        if start_ms >= profile.iteration_ms or length_ms > profile.iteration_ms:
            raise phase.wrong(f"a phase that begins within {profile.iteration_ms:g} ms and lasts no longer")
    return found["name"], profile


def _phase(value: Value) -> Phase:
    start_ms, length_ms, gbps = list_of(number_from(0.0, LONGEST_MS), "numbers", exactly=3)(value)
    return Phase(start_ms, length_ms, gbps)


def _link(value: Value) -> tuple[Any, ...]:
    fields = {
        "name": Field(printable_name),
        "capacity_gbps": Field(number_from(0.001, FASTEST_GBPS)),
        "jobs": Field(list_of(printable_name, "jobs", distinct=True)),
    }
    return tuple(read_table(value, fields).values())
