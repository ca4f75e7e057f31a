"""A topology file's text, from what was found of a cluster."""

from paceline.commands.arguments import CommandError
from paceline.commands.topology.found import FoundCluster, FoundNic, FoundSwitch

HEAD = """# The topology of this cluster; hostd.toml and switchd.toml name this file: topology_file = "…".
# To add a host or a rack: a line here, `paceline topology check`, the same file on all machines, and `systemctl reload`
# of switchd, from the top downward, then of hostd. Nothing restarts.

version = 1
"""


def write(found: FoundCluster, uplink_gbps: tuple[float, ...] | None, top: str, listen: str | None) -> str:
    """`uplink_gbps`: of switches whose rate is not said, from the racks' tier upward."""
    switches = _with_one_top(found, top)
    height = _heights(found, switches)
    lines = [HEAD, "[switches]"]
    # The top first.
    for name in sorted(switches, key=lambda name: (-height[name], _natural(name))):
        lines.append(f"{_key(name)} = {_switch(name, switches[name], height[name], uplink_gbps, listen)}")
    lines += ["", "[hosts]"]
    lines += [f"{_key(host)} = {_host(nics)}" for host, nics in found.hosts.items()]
    return "\n".join(lines) + "\n"


def _with_one_top(found: FoundCluster, top: str) -> dict[str, FoundSwitch]:
    """Several tops, that nothing connects, are below one more switch."""
    racks = [nic.switch for nics in found.hosts.values() for nic in nics]
    above = [parent for switch in found.switches.values() for parent in switch.parents]
    switches = {name: found.switches.get(name, FoundSwitch()) for name in dict.fromkeys([*racks, *above])}
    tops = [name for name, switch in switches.items() if not switch.parents]
    ways = [switch.parents for switch in switches.values() if len(switch.parents) > 1]
    if len(tops) > 1 and not any(set(tops) <= set(parents) for parents in ways):
        if top in switches:
            raise CommandError(f"{len(tops)} switches have none above: --top NAME, of a switch that is not there yet")
        for name in tops:
            switches[name] = FoundSwitch([top])
        switches[top] = FoundSwitch()
    return switches


def _heights(found: FoundCluster, switches: dict[str, FoundSwitch]) -> dict[str, int]:
    """Tiers of switches below each."""
    height = dict.fromkeys(switches, 0)
    for _ in switches:  # at most so many tiers; one round settles one
        before = dict(height)
        for name, switch in switches.items():
            for parent in switch.parents:
                height[parent] = max(height[parent], height[name] + 1)
        if height == before:
            return height
    raise CommandError("the switches are below each other, in a circle")


def _switch(
    name: str, switch: FoundSwitch, height: int, uplink_gbps: tuple[float, ...] | None, listen: str | None
) -> str:
    parts = []
    if switch.parents:
        rates = switch.gbps
        if not rates:
            if uplink_gbps is None:
                raise CommandError(f"nothing says how fast the uplink of {name} is: --uplink-gbps N")
            rates = [uplink_gbps[min(height, len(uplink_gbps) - 1)]] * len(switch.parents)
        alike = len(set(rates)) == 1
        parts += [f"parents = {_list(switch.parents)}"]
        parts += [f"gbps = {rates[0]:g}" if alike else f"gbps = [{', '.join(f'{rate:g}' for rate in rates)}]"]
    if listen is not None:
        parts.append(f'listen = "{listen.replace("{name}", name)}"')
    return "{" + ", ".join(parts) + "}"


def _host(nics: list[FoundNic]) -> str:
    if len(nics) == 1:
        return _nic(nics[0], named=False)
    return "{nics = [" + ", ".join(_nic(nic, named=number > 0) for number, nic in enumerate(nics)) + "]}"


def _nic(nic: FoundNic, *, named: bool) -> str:
    name = f'name = "{nic.name}", ' if named else ""
    return f'{{{name}switch = "{nic.switch}", gbps = {nic.gbps:g}, addresses = {_list(nic.addresses)}}}'


def _list(texts: list[str]) -> str:
    return "[" + ", ".join(f'"{text}"' for text in texts) + "]"


def _key(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else f'"{name}"'


def _natural(name: str) -> list[tuple[int, str]]:
    """rack2 before rack10."""
    digits = "".join(char if char.isdigit() else " " for char in name).split()
    return [(int(digits[-1]) if digits else 0, name)]
