"""From names on the command line to what a run needs: a trace by its format, a topology by its kind or file."""

from collections.abc import Callable
from math import ceil
from pathlib import Path

from paceline.flowcore.model.topology import Topology, clos, star, tree
from paceline.sim.trace.formats import generated, lingjun, muri, philly, tiresias
from paceline.sim.trace.formats.job import TraceJob
from paceline.sim.trace.formats.lines import Lines
from paceline.sim.trace.profiles import Profiles

FORMATS: dict[str, Callable[..., Lines[TraceJob]]] = {
    "muri": muri.read,
    "philly": philly.read,
    "tiresias": tiresias.read,
    "generated": generated.read,
}

# §VII: ten servers a rack, ten racks an edge switch, edges under one aggregation switch.
SECTION_VII_GBPS = (10.0, 20.0, 40.0)
GROUP = 10

CLOS_GBPS = (10.0, 20.0)
CLOS_SPINES = 4

# Dally §V-B: eight machines of eight GPUs a rack, Quantum and Spectrum switches; the same racks on slower Ethernet; and
# Titan §V-B: 100 Gbit/s everywhere.
RACK = 8
RACKS_GBPS = {"dally": (400.0, 800.0), "dally-10g": (10.0, 40.0), "titan": (100.0, 100.0)}

STAR_GBPS = 10.0


def read_jobs(
    path: Path, kind: str, profiles: Profiles, seed: int, *, skip_bad: bool = False, most: int | None = None
) -> Lines[TraceJob]:
    """The first `most` jobs by arrival."""
    lines = FORMATS[kind](path, profiles, seed, skip_bad=skip_bad)
    jobs = sorted(lines.items, key=lambda job: job.arrival_s)
    return Lines(tuple(jobs[:most]), lines.skipped, lines.refused)


def build_topology(name: str, servers: int) -> Topology:
    """One of these names, large enough for so many servers, or the file of a real cluster."""
    if name == "section-vii":
        racks = ceil(servers / GROUP)
        return tree(min(GROUP, servers), min(GROUP, racks), ceil(racks / GROUP), SECTION_VII_GBPS)
    if name == "clos":
        return clos(min(GROUP, servers), ceil(servers / GROUP), CLOS_SPINES, CLOS_GBPS)
    if name in RACKS_GBPS:
        return clos(min(RACK, servers), ceil(servers / RACK), 1, RACKS_GBPS[name])
    if name == "star":
        return star(servers, STAR_GBPS)
    return lingjun.read(Path(name), SECTION_VII_GBPS)
