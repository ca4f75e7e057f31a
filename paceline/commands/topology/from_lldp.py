"""What each host's lldpd hears from the switches that it is plugged into; `lldpctl -f json` or `lldpctl -f keyvalue`.

The output does not say whose it is: its file is called after the host. Two interfaces to one switch are a bond, to
different switches rails. A rate is there only where ports tell it (auto-negotiation's current mode).
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from paceline.commands.arguments import CommandError
from paceline.commands.topology.found import FoundCluster, FoundNic, need_gbps

# 1000BaseTFD, 10GigBaseSR, 100GbaseCR4, 25GBASE-CR
_MODE = re.compile(r"(?<![\d.])(\d+)(g|gig)?\s?base", re.IGNORECASE)


def read(texts: Mapping[Path, str], gbps: float | None) -> FoundCluster:
    found = FoundCluster()
    for path, text in texts.items():
        host, neighbours = path.stem, list(_neighbours(path, text))
        if not neighbours:
            raise CommandError(f"{path}: found no neighbour with a name, expected lldpctl -f json of {host}")
        for interface, switch, mode in neighbours:
            name = interface if host in found.hosts else None
            rate = _gbps(mode) or need_gbps(gbps, f"{path}: {interface}")
            found.add_nic(host, FoundNic(switch, rate, [host] if name is None else [], name))
    return found


def _neighbours(path: Path, text: str) -> Iterator[tuple[str, str, str]]:
    """Interface, switch and the port's mode."""
    if not text.lstrip().startswith("{"):
        yield from _of_key_values(text)
        return
    try:
        interfaces = json.loads(text)["lldp"]["interface"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CommandError(f"{path}: found no lldp.interface ({error}), expected lldpctl -f json") from None
    tables = interfaces if isinstance(interfaces, list) else [interfaces]
    for table in tables:
        for interface, said in table.items() if isinstance(table, dict) else ():
            chassis = said.get("chassis") if isinstance(said, dict) else None
            if isinstance(chassis, dict) and (name := _chassis_name(chassis)):
                yield interface, name, _mode(said.get("port"))


def _chassis_name(chassis: Mapping[str, Any]) -> str | None:
    """The switch's name is the key, but where it has none."""
    if isinstance(chassis.get("name"), str):
        return str(chassis["name"])
    named = [name for name, said in chassis.items() if isinstance(said, dict) and name != "id"]
    return named[0] if named else None


def _mode(port: object) -> str:
    current = port.get("auto-negotiation", {}) if isinstance(port, dict) else {}
    return str(current.get("current", "")) if isinstance(current, dict) else ""


def _of_key_values(text: str) -> Iterator[tuple[str, str, str]]:
    said: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        key, _, value = line.partition("=")
        for end in (".chassis.name", ".port.auto-negotiation.current"):
            if key.startswith("lldp.") and key.endswith(end):
                said.setdefault(key[len("lldp.") : -len(end)], {})[end] = value.strip()
    for interface, found in said.items():
        if found.get(".chassis.name"):
            yield interface, found[".chassis.name"], found.get(".port.auto-negotiation.current", "")


def _gbps(mode: str) -> float | None:
    found = _MODE.search(mode)
    if not found:
        return None
    return float(found[1]) if found[2] else int(found[1]) / 1000
