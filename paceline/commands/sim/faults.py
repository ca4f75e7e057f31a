"""`paceline sim faults`: histories of faults over the agents of hosts and switches."""

import argparse
from time import perf_counter
from typing import Any

from paceline.commands.arguments import add_json, integer, seed

MOST_HISTORIES = 100_000_000
MOST_SLOTS = 1_000_000


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "faults",
        help="histories of faults over the agents of hosts and switches",
        description=(
            "Draw small histories of faults (streams cut, daemons stalled and killed, clocks stepped, messages late,\n"
            "jobs hung, hosts that lie) and run the agents of hosts and switches through each. Safety is checked all\n"
            "the time, liveness once the faults have ended. A history that fails is shrunk and printed; its seed runs\n"
            "it again. Exit status 1 where one failed."
        ),
        epilog="examples:\n  paceline sim faults --count 100000 --workers 2\n"
        "  paceline sim faults --seed 7 --topology clos --count 1 --verbose",
    )
    parser.add_argument("--count", metavar="N", type=integer(1, MOST_HISTORIES), default=100, help="default: 100")
    parser.add_argument("--seed", metavar="S", type=seed, default=1, help="of the first history (default: 1)")
    parser.add_argument(
        "--topology", choices=("star", "tree", "clos", "all"), default="all", help="all: one after the other (default)"
    )
    parser.add_argument(
        "--slots", metavar="N", type=integer(12, MOST_SLOTS), default=16, help="in whose first half faults begin (16)"
    )
    parser.add_argument("--workers", metavar="N", type=integer(1, 1024), default=1, help="processes (default: 1)")
    parser.add_argument("--verbose", action="store_true", help="print all that happens in the first history, shrunk")
    add_json(parser)
    parser.set_defaults(run=run_faults)


def run_faults(args: argparse.Namespace) -> int:
    from paceline.commands.console import print_json, progress_bar
    from paceline.commands.provenance import provenance
    from paceline.sim.faults.campaign import run_histories
    from paceline.sim.faults.draw import TOPOLOGIES

    topologies = TOPOLOGIES if args.topology == "all" else (args.topology,)
    if args.verbose:
        return _show(args.seed, topologies[0], args.slots)
    started_s = perf_counter()
    failures, done = [], 0
    with progress_bar() as bar:
        task = bar.add_task(f"{args.count} histories", total=args.count)
        for failure in run_histories(args.seed, args.count, topologies, args.slots, args.workers):
            done += 1
            bar.advance(task)
            if failure is not None:
                failures.append(failure)
                bar.update(task, description=f"{args.count} histories, {len(failures)} failed")
    wall_s = perf_counter() - started_s
    if args.json:
        document = {
            "histories": done,
            "seed": args.seed,
            "topologies": list(topologies),
            "slots": args.slots,
            "violations": [failure._asdict() for failure in failures],
            "wall_s": wall_s,
            "histories_per_s": done / wall_s,
        }
        print_json(document | provenance())
    else:
        for failure in failures:
            print(f"seed {failure.seed} on {failure.topology}: {failure.what}")
            for line in failure.lines:
                print(f"    {line}")
            print(f"    again: paceline sim faults --seed {failure.seed} --topology {failure.topology}", end="")
            print(f" --slots {args.slots} --count 1 --verbose")
        print(f"{done} histories, {done / wall_s:.0f} a second: {len(failures) or 'no'} violations")
    return 1 if failures else 0


def _show(seed: int, topology: str, slots: int) -> int:
    from paceline.sim.faults.draw import draw
    from paceline.sim.faults.run import check
    from paceline.sim.faults.shrink import shrink
    from paceline.sim.faults.world import SLOT_NS

    verdict = check(draw(seed, topology, slots))
    history = shrink(verdict).history if verdict.rule else verdict.history
    for line in history.lines():
        print(line)
    verdict = check(history, lambda now_ns, name, what: print(f"{now_ns / SLOT_NS:9.3f} {name:8} {what}"))
    print(verdict.what or "all held")
    return 1 if verdict.rule else 0
