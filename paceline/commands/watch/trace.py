"""`paceline trace export`: the links' timelines as a trace for ui.perfetto.dev."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.commands.arguments import CommandError, add_json, integer
from paceline.commands.watch.sources import add_sources, watchers

if TYPE_CHECKING:
    from paceline.web.board import Board

LEVELS = {"1m": 0, "10m": 1, "1h": 2}
SPANS_S = (60, 600, 3600)
ANSWER_S = 10.0
MAX_BYTES = 64 << 20


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "trace",
        help="what links carried, as a file for trace viewers",
        description="What links carried, as a file for trace viewers.",
        epilog="example: paceline trace export links.json",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    export = commands.add_parser(
        "export",
        help="write a Chrome/Perfetto trace: open it in ui.perfetto.dev",
        description=(
            "Write what each link carried by job as a Chrome/Perfetto trace: a track for each link, slices for each\n"
            "job, counters of the load. From the daemons, watched for --seconds, or at once from a `paceline web`\n"
            "that has watched them (--from)."
        ),
        epilog=(
            "example: paceline trace export links.json --seconds 20\n"
            "         paceline trace export links.json --from http://127.0.0.1:9470 --range 1h"
        ),
    )
    export.add_argument("file", metavar="FILE", type=Path, help="the trace (JSON)")
    export.add_argument("--seconds", metavar="N", type=integer(1, 3600), default=10, help="default: %(default)s")
    export.add_argument("--from", metavar="URL", dest="url", help="of a `paceline web`")
    export.add_argument("--range", choices=LEVELS, default="1m", help="with --from: how much (default: %(default)s)")
    add_sources(export)
    add_json(export)
    export.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import json

    from paceline.commands.console import print_json
    from paceline.web.trace import trace_document

    if args.url is not None:
        state = _fetched(args.url, "api/state")
        history = _fetched(args.url, f"api/history?level={LEVELS[args.range]}")
    else:
        state, history = _watched(args)
    try:
        document = trace_document(state["links"], history)
    except (LookupError, TypeError):
        raise CommandError(f"{args.url}: found another document, expected that of a `paceline web`") from None
    args.file.write_text(json.dumps(document, allow_nan=False))
    slices = sum(event["ph"] == "X" for event in document["traceEvents"])
    links = sum(event["name"] == "process_name" for event in document["traceEvents"])
    if args.json:
        print_json({"file": str(args.file), "links": links, "slices": slices})
    else:
        print(f"wrote {args.file}: {links} links, {slices} slices; open it in ui.perfetto.dev")
    return 0


def _watched(args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    import asyncio

    import paceline.service  # noqa: F401  before grpc: it silences grpc's own log lines
    from paceline.web.board import Board

    board = Board()
    asyncio.run(_watch(args, board))
    for daemon in board.daemons:
        if daemon.heard_s is None:
            raise CommandError(f"{daemon.kind} at {daemon.address}: {daemon.why}")
    level = next(number for number, span_s in enumerate(SPANS_S) if args.seconds <= span_s)
    return board.state(), board.history(level)


async def _watch(args: argparse.Namespace, board: "Board") -> None:
    import asyncio

    tasks = [asyncio.create_task(source()) for source in watchers(args, board)]
    await asyncio.wait(tasks, timeout=args.seconds)  # they never end by themselves
    for task in tasks:
        task.cancel()
    for found in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(found, Exception):
            raise found


def _fetched(url: str, path: str) -> dict[str, Any]:
    import json
    from http.client import HTTPException
    from urllib.request import urlopen

    if not url.startswith(("http://", "https://")):
        raise CommandError(f"--from: found {url!r}, expected a URL such as http://127.0.0.1:9470")
    try:
        with urlopen(f"{url.rstrip('/')}/{path}", timeout=ANSWER_S) as answer:
            found = json.loads(answer.read(MAX_BYTES))
    except (OSError, ValueError, HTTPException) as error:
        raise CommandError(f"{url}: {getattr(error, 'reason', None) or error}; is `paceline web` running?") from None
    if not isinstance(found, dict):
        raise CommandError(f"{url}: found no JSON object, expected that of a `paceline web`")
    return found
