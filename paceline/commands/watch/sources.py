"""Which daemons a command watches: hosts by their runtime directories, switches by their addresses."""

import argparse
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from paceline.commands.arguments import CommandError
from paceline.commands.host import RUNTIME_DIRECTORY

if TYPE_CHECKING:
    import grpc

    from paceline.service.tls import TlsFiles
    from paceline.web.board import Board

DEFAULT_SWITCH = "127.0.0.1:7470"


class SwitchAddress(NamedTuple):
    name: str  # empty: not known before it answers
    address: str
    tls: "TlsFiles | None"

    def open_channel(self) -> "grpc.aio.Channel":
        from paceline.service.tls import expecting
        from paceline.wire.calls import open_channel

        if self.tls is None:
            return open_channel(self.address, None)
        return open_channel(self.address, self.tls.channel_credentials(), expecting(self.name) if self.name else None)

    def why_not(self) -> str | None:
        """Why a TLS handshake with it fails."""
        from paceline.service.handshakes.tls_failure import why_handshake_fails

        return why_handshake_fails(self.tls, None, self.name or None, self.address)


def add_sources(parser: argparse.ArgumentParser) -> None:
    what = "hostd's runtime directory; may be given several times (default, if no switch is given: %s)"
    parser.add_argument(
        "--host", metavar="DIR", type=Path, action="append", default=[], help=what % str(RUNTIME_DIRECTORY)
    )
    add_switches(parser)


def add_switches(parser: argparse.ArgumentParser) -> None:
    what = "a switch; may be given several times; with TLS, NAME is the name in its certificate"
    parser.add_argument("--switch", metavar="[NAME=]HOST:PORT", action="append", default=[], help=what)
    parser.add_argument("--scenario", metavar="FILE", type=Path, help="all switches of a cluster on this machine")
    for part in ("ca", "certificate", "key"):
        parser.add_argument(f"--{part}", metavar="FILE", type=Path, help="TLS to the switches, PEM")


def switches_of(args: argparse.Namespace) -> list[SwitchAddress]:
    """Raises CommandError."""
    from paceline.service.address import host_port

    tls = _tls(args)
    found = list(_of_scenario(args.scenario, tls)) if args.scenario is not None else []
    for text in args.switch:
        name, _, address = text.rpartition("=")
        try:
            found.append(SwitchAddress(name, str(host_port(address)), tls))
        except ValueError as error:
            raise CommandError(f"--switch: {error}") from None
    return found


def _of_scenario(path: Path, tls: "TlsFiles | None") -> list[SwitchAddress]:
    from paceline.flowcore.model.fields import InputError
    from paceline.flowcore.model.scenario import parse_scenario
    from switchd.config import loopback_address

    try:
        topology = parse_scenario(path.read_text(), str(path)).topology
        return [SwitchAddress(name, loopback_address(topology, name), tls) for name in topology.switches]
    except InputError as error:
        raise CommandError(str(error)) from None
    except UnicodeDecodeError:
        raise CommandError(f"{path}: not UTF-8, expected a scenario (TOML)") from None


def _tls(args: argparse.Namespace) -> "TlsFiles | None":
    from paceline.flowcore.model.fields import InputError
    from paceline.service.tls import TlsFiles

    files = (args.ca, args.certificate, args.key)
    if not any(files):
        return None
    if not all(files):
        raise CommandError("TLS needs all of --ca, --certificate and --key")
    found = TlsFiles(*files)
    try:
        found.read()
    except InputError as error:
        raise CommandError(str(error)) from None
    return found


def watchers(args: argparse.Namespace, board: "Board") -> list[Callable[[], Coroutine[Any, Any, None]]]:
    """What keeps the board up to date: a coroutine for each daemon."""
    from paceline.web.host_source import HostSource
    from paceline.web.switch_source import SwitchSource

    switches, hosts = switches_of(args), list(args.host)
    if not switches and not hosts:
        hosts = [RUNTIME_DIRECTORY]
        if _listens(DEFAULT_SWITCH):
            switches = [SwitchAddress("", DEFAULT_SWITCH, None)]
            hosts = [one for one in hosts if (one / "control.sock").exists()]
    found: list[HostSource | SwitchSource] = [
        SwitchSource(board, one.address, one.open_channel, one.why_not, one.name) for one in switches
    ]
    found += [HostSource(board, directory / "control.sock") for directory in hosts]
    return [one.run for one in found]


def _listens(address: str) -> bool:
    from paceline.service.address import host_port

    with suppress(OSError), socket.create_connection(host_port(address), 0.5):
        return True
    return False
