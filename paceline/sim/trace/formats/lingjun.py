"""Alibaba's Lingjun cluster: one line per host with its access, pod and core switch (ip, ASW, PSW, DSW)."""

from collections.abc import Sequence
from pathlib import Path

from paceline.flowcore.model.topology import Topology, racks
from paceline.sim.trace.formats.lines import read_lines

COLUMNS = ("ip", "DSW", "PSW", "ASW")


def read(path: Path, link_gbps: Sequence[float]) -> Topology:
    """Hosts h0, h1, … in the order of their racks; link rates host–ASW, ASW–PSW, PSW–DSW."""

    def line(row: dict[str, str]) -> tuple[str, str, str]:
        for column in COLUMNS:
            if not row[column]:
                raise ValueError(f"{column} is empty")
        pod = f"{row['DSW']}.{row['PSW']}"
        return row["DSW"], pod, f"{pod}.{row['ASW']}"

    places = sorted(read_lines(path, COLUMNS, line, skip_bad=False).items)
    return racks([(rack, pod, core) for core, pod, rack in places], link_gbps)
