"""`paceline switch`: looking at switches."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.commands.arguments import CommandError, add_json, integer

if TYPE_CHECKING:
    import grpc

    from paceline.wire.watching import Snapshot


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "switch",
        help="look at a switch",
        description="Look at a switch.",
        epilog="example: paceline switch top --address 127.0.0.1:7470",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_top(commands)


def _add_top(commands: Any) -> None:
    parser = commands.add_parser(
        "top",
        help="its links and what is promised on them, live",
        description=(
            "Show a switch's load table as it changes: a row per link, a cell per slot, from empty to full; its\n"
            "flows and hosts, the switches it cannot reach, and what it refused. --json prints one snapshot."
        ),
        epilog=(
            "example: paceline switch top --address 127.0.0.1:7470\n"
            "         paceline switch top --scenario scenarios/tree.toml --switch tor0\n"
            "         paceline switch top --address 10.0.0.1:7400 --switch tor0 \\\n"
            "             --ca ca.crt --certificate me.crt --key me.key"
        ),
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--address", metavar="HOST:PORT", default="127.0.0.1:7470", help="default: %(default)s")
    where.add_argument("--scenario", metavar="FILE", type=Path, help="a cluster on this machine")
    parser.add_argument("--switch", metavar="NAME", help="of the scenario; with TLS, the name in its certificate")
    parser.add_argument("--every", metavar="SLOTS", type=integer(1, 10_000), default=4, help="default: %(default)s")
    parser.add_argument("--once", action="store_true", help="one look, then end")
    for part in ("ca", "certificate", "key"):
        parser.add_argument(f"--{part}", metavar="FILE", type=Path, help="TLS, PEM")
    add_json(parser)
    parser.set_defaults(run=run_top)


def run_top(args: argparse.Namespace) -> int:
    import asyncio

    import paceline.service  # noqa: F401  before grpc: it silences grpc's own log lines

    address = _address(args)
    asyncio.run(_top(args, address))
    return 0


def _address(args: argparse.Namespace) -> str:
    from paceline.flowcore.model.fields import InputError
    from paceline.service.address import host_port
    from switchd.config import of_scenario

    if args.scenario is None:
        try:
            return str(host_port(args.address))
        except ValueError as error:
            raise CommandError(f"--address: {error}") from None
    if not args.switch:
        raise CommandError("--scenario needs --switch NAME (see: paceline switch top --help)")
    try:
        return of_scenario(args.scenario, args.scenario.read_text(), args.switch, "paceline").listen
    except InputError as error:
        raise CommandError(str(error)) from None
    except UnicodeDecodeError:
        raise CommandError(f"{args.scenario}: not UTF-8, expected a scenario (TOML)") from None


def _why_handshake_fails(args: argparse.Namespace, address: str) -> str | None:
    from paceline.service.handshakes.tls_failure import why_handshake_fails
    from paceline.service.tls import TlsFiles

    files = TlsFiles(args.ca, args.certificate, args.key) if args.ca else None
    return why_handshake_fails(files, None, args.switch, address)


async def _top(args: argparse.Namespace, address: str) -> None:
    import asyncio
    import sys

    import grpc

    from paceline.wire.codec import BadMessage
    from paceline.wire.watching import watch

    once = args.once or args.json or not sys.stdout.isatty()
    try:
        async with _channel(args, address) as channel:
            snapshots = watch(channel, args.every)
            if once:
                _show(await anext(snapshots), args.json)
            else:
                await _live(snapshots)
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            why = await asyncio.to_thread(_why_handshake_fails, args, address)
            hint = "; TLS needs --ca, --certificate and --key" if why and not args.ca else ""
            raise CommandError(f"{why}{hint}" if why else f"no switch listens on {address}") from None
        raise CommandError(f"{address}: {error.details()}") from None
    except BadMessage as error:
        raise CommandError(f"{address}: {error}") from None


def _channel(args: argparse.Namespace, address: str) -> "grpc.aio.Channel":
    from paceline.flowcore.model.fields import InputError
    from paceline.service.tls import TlsFiles, expecting
    from paceline.wire.calls import open_channel

    files = (args.ca, args.certificate, args.key)
    if not any(files):
        return open_channel(address, None)
    if not all(files):
        raise CommandError("TLS needs all of --ca, --certificate and --key")
    try:
        credentials = TlsFiles(*files).channel_credentials()
    except InputError as error:
        raise CommandError(str(error)) from None
    return open_channel(address, credentials, expecting(args.switch) if args.switch else None)


def _show(snapshot: "Snapshot", as_json: bool) -> None:
    from dataclasses import asdict

    from rich.console import Console

    from paceline.commands.console import print_json
    from paceline.commands.provenance import provenance
    from paceline.commands.view.heat_map import heat_map

    if as_json:
        print_json(asdict(snapshot) | provenance())
        return
    console = Console(highlight=False)
    with console.capture() as text:
        console.print(heat_map(snapshot))
    print(text.get(), end="")


async def _live(snapshots: Any) -> None:
    from rich.live import Live

    from paceline.commands.keyboard import is_leaving, keys
    from paceline.commands.view.heat_map import heat_map

    with keys() as keyboard, Live(auto_refresh=False, screen=True) as live:
        async for snapshot in snapshots:
            live.update(heat_map(snapshot, most_links=max(1, live.console.height - 6)), refresh=True)
            if is_leaving(keyboard, 0.0):
                return
