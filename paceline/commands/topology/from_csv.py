"""A CSV of host,rack,speed[,addresses[,nic]]: a line for each NIC, its rate in Gbit/s, addresses divided by spaces or
semicolons.

A line whose first word is another line's rack is that rack's uplink:

    host,rack,speed,addresses
    gpu-a,rack1,25,10.0.1.10 fd00::10
    rack1,core,100
"""

import csv

from paceline.commands.arguments import CommandError
from paceline.commands.topology.found import FoundCluster, FoundNic, FoundSwitch, gbps_of, need_gbps

COLUMNS = ["host", "rack", "speed", "addresses", "nic"]


def read(text: str, source: str, gbps: float | None) -> FoundCluster:
    lines = [line if not line.lstrip().startswith("#") else "" for line in text.splitlines()]
    try:
        rows = [(number, [word.strip() for word in row]) for number, row in enumerate(csv.reader(lines), 1) if any(row)]
    except csv.Error as error:
        raise CommandError(f"{source}: found no CSV ({error})") from None
    columns = COLUMNS
    if rows and rows[0][1][0].lower() == "host":
        columns = [name.lower() for name in rows.pop(0)[1]]
        for name in columns:
            if name not in COLUMNS:
                raise CommandError(f"{source}: line 1: found column {name!r}, expected {','.join(COLUMNS)}")
    if not rows:
        raise CommandError(f"{source}: found no line, expected host,rack,speed[,addresses]")
    cells = [(number, _cells(row, columns, f"{source}: line {number}")) for number, row in rows]
    racks = {row["rack"] for _, row in cells}
    found = FoundCluster()
    for number, row in cells:
        where = f"{source}: line {number}"
        rate = _rate(row["speed"], where) if row["speed"] else None
        if row["host"] in racks:
            switch = found.switches.setdefault(row["host"], FoundSwitch())
            switch.parents.append(row["rack"])
            if rate is None:
                raise CommandError(f"{where}: found no speed, expected that of the uplink of {row['host']}")
            switch.gbps.append(rate)
            continue
        addresses = row["addresses"].replace(";", " ").split() or [row["host"]]
        nic = FoundNic(row["rack"], need_gbps(gbps, where) if rate is None else rate, addresses, row["nic"] or None)
        found.add_nic(row["host"], nic)
    return found


def _cells(row: list[str], columns: list[str], where: str) -> dict[str, str]:
    if len(row) > len(columns):
        raise CommandError(f"{where}: found {len(row)} cells, expected at most {len(columns)}: {','.join(columns)}")
    cells = dict.fromkeys(COLUMNS, "") | dict(zip(columns, row, strict=False))
    for name in ("host", "rack"):
        if not cells[name]:
            raise CommandError(f"{where}: found no {name}, expected host,rack,speed[,addresses]")
    return cells


def _rate(text: str, where: str) -> float:
    try:
        return gbps_of(text)
    except ValueError as error:
        raise CommandError(f"{where}: speed: {error}") from None
