"""`paceline web`: the page."""

import argparse
from typing import Any

from paceline.commands.arguments import CommandError
from paceline.commands.watch.sources import add_sources, watchers

LISTEN = "127.0.0.1:9470"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "web",
        help="a page with the links' timelines, jobs and daemons, live",
        description=(
            "Serve a page of what daemons do: each link's timeline stacked by job, jobs and why they wait, the health\n"
            "of daemons, and the last hour. Read only. Without --host and --switch: what runs on this machine."
        ),
        epilog=(
            "example: paceline web\n"
            "         paceline web --switch 127.0.0.1:7470 --host /run/paceline/hostd\n"
            "         paceline web --switch tor0=10.0.0.1:7400 --ca ca.crt --certificate me.crt --key me.key"
        ),
    )
    where = "HOST:PORT; whoever reaches it can read the page, there is no password (default: %(default)s)"
    parser.add_argument("--listen", metavar="ADDRESS", default=LISTEN, help=where)
    add_sources(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import asyncio

    import paceline.service  # noqa: F401  before grpc: it silences grpc's own log lines

    return asyncio.run(_serve(args))


async def _serve(args: argparse.Namespace) -> int:
    """Until it is interrupted or terminated."""
    import asyncio
    import signal

    from paceline.service.address import host_port, stays_on_this_machine
    from paceline.web.board import Board
    from paceline.web.http import HttpServer
    from paceline.web.pages import Pages

    board = Board()
    try:
        wanted = host_port(args.listen)
    except ValueError as error:
        raise CommandError(f"--listen: {error}") from None
    sources = watchers(args, board)
    server = HttpServer(Pages(board).answer)
    try:
        address = await server.open(wanted)
    except OSError as error:
        raise CommandError(f"cannot serve the page on {wanted}: {error.strerror or error}") from None
    print(f"http://{address}/  (Ctrl-C ends it)", flush=True)
    if not stays_on_this_machine(str(address)):
        print("every machine that reaches this address can read the page: there is no password", flush=True)
    terminated = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminated.set)
    tasks = [asyncio.create_task(source()) for source in sources]
    try:
        stopping = asyncio.create_task(terminated.wait())
        done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopping}:  # a source ends by a fault alone
            task.result()
    finally:
        server.close()
    return 128 + signal.SIGTERM
