"""`paceline certs`: certificates for mutual TLS between daemons, for clusters without a CA. Law: parse, call, print."""

import argparse
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.commands.arguments import CommandError, add_json, integer

if TYPE_CHECKING:
    from paceline.commands.authority import Issued

MAX_DAYS = 36500
CA_DAYS = 3650
LEAF_DAYS = 365
RENEW_DAYS = 30

EXAMPLE = """example:
  paceline certs init certs
  paceline certs issue certs sw --address 10.0.0.1
  paceline certs issue certs h0
  paceline certs issue-all certs /etc/paceline/hostd.toml
  paceline certs show certs"""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "certs",
        help="make certificates for the daemons",
        description="Makes a small certificate authority and certificates for hosts and switches.",
        epilog=EXAMPLE,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    init = commands.add_parser(
        "init",
        help="make a certificate authority",
        description="Makes DIR/ca.crt, which every daemon gets, and DIR/ca.key, which stays where it is.",
        epilog="example: paceline certs init certs",
    )
    _add_making(init, CA_DAYS)
    init.set_defaults(run=run_init)

    issue = commands.add_parser(
        "issue",
        help="make a certificate for a host or switch",
        description="Makes DIR/NAME.crt and DIR/NAME.key. NAME is what the topology calls the host or switch.",
        epilog="example: paceline certs issue certs sw --address 10.0.0.1 --address sw.example.org",
    )
    _add_making(issue, LEAF_DAYS)
    issue.add_argument("name", metavar="NAME", help="the host or switch")
    issue.add_argument(
        "--address", action="append", default=[], metavar="A", help="an IP address or DNS name it is reached at"
    )
    issue.set_defaults(run=run_issue)

    every = commands.add_parser(
        "issue-all",
        help="make the certificates of all hosts and switches",
        description="Makes the certificates that are missing in DIR, or expire soon, of every host and switch in FILE:"
        "\na topology file, TOML with a [topology] (a scenario, hostd.toml, switchd.toml), or a text with NAME\n"
        "ADDRESS… a line.",
        epilog="example: paceline certs issue-all certs /etc/paceline/hostd.toml",
    )
    _add_making(every, LEAF_DAYS)
    every.add_argument("file", type=Path, metavar="FILE", help="which hosts and switches there are")
    every.add_argument(
        "--renew-days",
        type=integer(0, MAX_DAYS),
        default=RENEW_DAYS,
        metavar="N",
        help="make those anew that expire within so many days (default: %(default)s)",
    )
    every.set_defaults(run=run_issue_all)

    show = commands.add_parser(
        "show",
        help="list certificates and when they expire",
        description="Lists the certificates in DIR, whether the CA there signed them, and when they expire.",
        epilog="example: paceline certs show certs --json",
    )
    show.add_argument("directory", type=Path, metavar="DIR")
    add_json(show)
    show.set_defaults(run=run_show)


def _add_making(parser: argparse.ArgumentParser, default_days: int) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument(
        "--days",
        type=integer(1, MAX_DAYS),
        default=default_days,
        metavar="N",
        help=f"how long it is valid (default: {default_days})",
    )
    parser.add_argument("--force", action="store_true", help="replace what is there")
    add_json(parser)


def run_init(args: argparse.Namespace) -> int:
    authority = _authority()
    made = authority.init(args.directory, args.days, args.force, authority.utc_now())
    return _print_made(made, args.json, f"keep {made.key} to yourself; daemons get {made.certificate}")


def run_issue(args: argparse.Namespace) -> int:
    authority = _authority()
    made = authority.issue(args.directory, args.name, args.address, args.days, args.force, authority.utc_now())
    ca = args.directory / "ca.crt"
    return _print_made(made, args.json, f"{made.name} needs {made.certificate}, {made.key} and {ca}")


def run_issue_all(args: argparse.Namespace) -> int:
    from paceline.commands.console import print_json
    from paceline.commands.fleet_names import names_in

    authority = _authority()
    names, now = names_in(args.file), authority.utc_now()
    authority.check_names(names)  # all or none
    made, kept = [], []
    for name, addresses in names.items():
        if not args.force and authority.is_good(args.directory, name, addresses, args.renew_days, now):
            kept.append(name)
        else:
            made.append(authority.issue(args.directory, name, addresses, args.days, True, now))
    if args.json:
        print_json({"made": [_as_json(one) for one in made], "kept": kept})
        return 0
    for one in made:
        print(f"made {one.certificate} and {one.key}, valid until {one.expires:%Y-%m-%d}")
    print(f"{len(made)} made, {len(kept)} are good for more than {args.renew_days} days")
    return 0


def run_show(args: argparse.Namespace) -> int:
    from paceline.commands.console import print_json, print_table

    authority = _authority()
    certificates, now = authority.issued(args.directory), authority.utc_now()
    if args.json:
        shown = [_as_json(found) | {"days_left": found.days_left(now)} for found in certificates]
        print_json({"certificates": shown})
        return 0
    rows = [
        (found.name, " ".join(found.addresses), f"{found.expires:%Y-%m-%d}", _state(found, now))
        for found in certificates
    ]
    print_table(f"Certificates in {args.directory}", ("name", "addresses", "expires", ""), rows)
    return 0


def _state(found: "Issued", now: datetime) -> str:
    if not found.trusted:
        return "not from this CA"
    return "expired" if found.expires <= now else f"{found.days_left(now)} days left"


def _print_made(made: "Issued", as_json: bool, advice: str) -> int:
    from paceline.commands.console import print_json

    if as_json:
        print_json(_as_json(made))
    else:
        print(f"made {made.certificate} and {made.key}, valid until {made.expires:%Y-%m-%d}\n{advice}")
    return 0


def _as_json(found: "Issued") -> dict[str, object]:
    return {
        "name": found.name,
        "certificate": str(found.certificate),
        "key": str(found.key),
        "addresses": list(found.addresses),
        "expires": found.expires.isoformat(),
        "trusted": found.trusted,
    }


def _authority() -> Any:
    try:
        from paceline.commands import authority
    except ImportError:
        raise CommandError("certificates need cryptography: pip install 'paceline[certs]'") from None
    return authority
