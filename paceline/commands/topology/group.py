"""`paceline topology`: writes and checks topology files. Law: parse, call, print."""

import argparse
from pathlib import Path
from typing import Any

from paceline.commands.arguments import CommandError, Parser, add_json

EXAMPLE = """example:
  paceline topology init --csv racks.csv --out /etc/paceline/topology.toml
  paceline topology check /etc/paceline/topology.toml"""

INIT = """Writes a topology file from what a cluster already has:
  --csv FILE          lines of host,rack,speed[,addresses]; a line whose first word is a rack is that rack's uplink
  --slurm FILE        Slurm's topology.conf
  --lldp FILE...      of each host the output of `lldpctl -f json` or `lldpctl -f keyvalue`, as HOST.json or HOST.txt
  --kubernetes FILE   the output of `kubectl get nodes -o json`; racks by the nodes' labels
What these do not say (rates, where switches listen) options do, or an editor."""

INIT_EXAMPLE = """example:
  paceline topology init --slurm /etc/slurm/topology.conf --host-gbps 25 --uplink-gbps 100
  paceline topology init --lldp lldp/*.json --uplink-gbps 400 --listen '{name}.mgmt:7470' --out topology.toml
  kubectl get nodes -o json | paceline topology init --kubernetes - --label topology.kubernetes.io/rack \\
      --host-gbps 100 --uplink-gbps 400"""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "topology",
        help="write or check the file with a cluster's hosts and cables",
        description="Writes and checks topology files: hosts, racks, cables and addresses of a real cluster.",
        epilog=EXAMPLE,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    init = commands.add_parser("init", help="write one", description=INIT, epilog=INIT_EXAMPLE)
    _add_init(init)
    check = commands.add_parser(
        "check",
        help="say whether one is good, and what is in it",
        description="Checks a topology file and prints what is in it: one line and status 2 if it is wrong.\n"
        "--against says what another file, that the daemons run with, lacks or has otherwise.",
        epilog="example: paceline topology check new.toml --against /etc/paceline/topology.toml",
    )
    check.add_argument("file", type=Path, metavar="FILE")
    check.add_argument("--against", type=Path, metavar="FILE", help="the file that the daemons run with")
    add_json(check)
    check.set_defaults(run=run_check)


def _add_init(parser: Parser) -> None:
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--csv", metavar="FILE", type=Path, help="- is standard input, here and below")
    source.add_argument("--slurm", metavar="FILE", type=Path)
    source.add_argument("--lldp", metavar="FILE", type=Path, nargs="+")
    source.add_argument("--kubernetes", metavar="FILE", type=Path)
    parser.add_argument("--host-gbps", type=_rates, metavar="N", help="of hosts of which nothing else says it")
    parser.add_argument(
        "--uplink-gbps",
        type=_rates,
        metavar="N[,N]",
        help="of racks of which nothing else says it; further numbers: of the tiers above",
    )
    parser.add_argument("--top", metavar="NAME", default="top", help="of the switch above all racks (default: top)")
    parser.add_argument(
        "--label",
        action="append",
        metavar="KEY",
        help="with --kubernetes: of a node's rack; again: of the tier above (default: the usual ones)",
    )
    parser.add_argument("--listen", metavar="ADDRESS", help="of each switch's switchd; {name} is its name")
    parser.add_argument("--out", metavar="FILE", type=Path, help="instead of standard output")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    parser.set_defaults(run=run_init)


def _rates(text: str) -> tuple[float, ...]:
    from paceline.commands.topology.found import gbps_of

    try:
        return tuple(gbps_of(part) for part in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run_init(args: argparse.Namespace) -> int:
    import sys

    from paceline.commands.topology.write import write
    from paceline.flowcore.model.fields import InputError
    from paceline.flowcore.model.topology_file import parse_topology_file

    found = _found(args)
    text = write(found, args.uplink_gbps, args.top, args.listen)
    try:
        parse_topology_file(text, str(args.out or "what would be written"))
    except InputError as error:
        raise CommandError(str(error)) from None
    if args.out is None:
        sys.stdout.write(text)
        return 0
    if args.out.exists() and not args.force:
        raise CommandError(f"{args.out}: there is one; --force replaces it")
    args.out.write_text(text, encoding="utf-8")
    return _print_summary(args.out, None, False)


def _found(args: argparse.Namespace) -> Any:
    from paceline.commands.topology import from_csv, from_kubernetes, from_lldp, from_slurm
    from paceline.commands.topology.found import read_text

    gbps = args.host_gbps[0] if args.host_gbps else None
    if args.csv:
        return from_csv.read(read_text(args.csv), str(args.csv), gbps)
    if args.slurm:
        return from_slurm.read(read_text(args.slurm), str(args.slurm), gbps)
    if args.kubernetes:
        return from_kubernetes.read(read_text(args.kubernetes), str(args.kubernetes), gbps, args.label)
    return from_lldp.read({path: read_text(path) for path in args.lldp}, gbps)


def run_check(args: argparse.Namespace) -> int:
    return _print_summary(args.file, args.against, args.json)


def _print_summary(path: Path, against: Path | None, as_json: bool) -> int:
    from paceline.commands.console import print_json
    from paceline.commands.topology.summary import change, summary
    from paceline.flowcore.model.fields import InputError
    from paceline.service.topology_file import read_topology_file

    try:
        cluster = read_topology_file(path)
        before = read_topology_file(against) if against else None
    except InputError as error:
        raise CommandError(str(error)) from None
    said = summary(cluster)
    changes = change(before.topology, cluster.topology) if before else None
    if as_json:
        print_json(said.as_json() | ({"change": changes.as_json()} if changes else {}))
        return 0
    print("\n".join([f"{path}: {said}", *said.remarks, *(changes.lines() if changes else ())]))
    return 0
