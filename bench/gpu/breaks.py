"""The links of the chain, each broken in a way of its own. Law: what is broken is a setting or another build of the
library; the programs are those that people use.

    plugin-silent   the shim is switched off inside the jobs
    marks-early     an iteration's end is counted before its burst is announced
    sizes-wrong     announcements have half of their size
    hostd-blind     hostd looks for the jobs' counters in another directory
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from nccl_shim.build import FLAGS, LIBRARY_NAME, LINK_FLAGS, SOURCES, run_compiler

PLUGIN_SILENT, MARKS_EARLY, SIZES_WRONG, HOSTD_BLIND = "plugin-silent", "marks-early", "sizes-wrong", "hostd-blind"
BREAKS = (PLUGIN_SILENT, MARKS_EARLY, SIZES_WRONG, HOSTD_BLIND)
_FAULTS = {MARKS_EARLY: "-DMARKS_EARLY", SIZES_WRONG: "-DSIZES_WRONG"}


@dataclass(frozen=True, slots=True)
class Damage:
    """What differs from a sound chain."""

    environment: Mapping[str, str] = field(default_factory=dict)  # of the jobs
    hostd_is_blind: bool = False


@contextmanager
def damage(link: str | None) -> Iterator[Damage]:
    """That breaks the link; None breaks nothing."""
    with TemporaryDirectory() as directory:
        if link in _FAULTS:
            library = str(_build(Path(directory) / LIBRARY_NAME, _FAULTS[link]))
            yield Damage({"PACELINE_SHIM_LIBRARY": library, "NCCL_PROFILER_PLUGIN": library})
        elif link == PLUGIN_SILENT:
            yield Damage({"PACELINE_SHIM": "0"})
        else:
            yield Damage(hostd_is_blind=link == HOSTD_BLIND)


def _build(output: Path, fault: str) -> Path:
    core, *others = SOURCES
    sources = map(str, (Path(__file__).with_name("broken_core.c"), *others))
    run_compiler([*FLAGS, fault, f"-I{core.parent}", *sources, "-o", str(output), *LINK_FLAGS])
    return output
