"""Topology files on disk; what is in one: paceline/flowcore/model/topology_file.py."""

from pathlib import Path

from paceline.flowcore.model.fields import InputError, Value
from paceline.flowcore.model.topology_file import ClusterMap, parse_topology_file
from paceline.service.address import host_port

MAX_BYTES = 50_000_000  # a hundred thousand hosts have 10 MB


def read_topology_file(path: Path) -> ClusterMap:
    """Raises InputError, or OSError for a file that is not there."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1).decode()
    except UnicodeDecodeError:
        raise InputError(str(path), "the file", "no UTF-8 text", "TOML") from None
    if len(text) > MAX_BYTES:
        raise InputError(str(path), "the file", "more than 50 megabytes", "a topology file")
    cluster = parse_topology_file(text, str(path))
    for name, address in cluster.listen.items():
        try:
            host_port(address)
        except ValueError:
            raise InputError(str(path), f"switches.{name}.listen", repr(address), "HOST:PORT") from None
    return cluster


def topology_file(value: Value) -> Path:
    """The key `topology_file` of a configuration: a path, from where the configuration lies if it is relative."""
    if isinstance(value.found, str) and value.found and "\0" not in value.found:
        return Path(value.source).parent / value.found
    raise value.wrong("the path of a topology file")
