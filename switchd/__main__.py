"""switchd: one emulated switch. `switchd --help`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.flowcore.model.fields import InputError, printable
from paceline.flowcore.policy import FOR_DAEMONS
from paceline.service import logs
from paceline.service.arguments import DaemonParser
from paceline.service.handshakes import grpc_lines
from paceline.service.lifecycle import BAD_INPUT, reason_of, run_daemon

if TYPE_CHECKING:
    from switchd.config import SwitchConfig


def build_parser() -> DaemonParser:
    from switchd.config import DEFAULT_PORT  # here, because it imports grpc

    parser = DaemonParser(
        prog="switchd",
        description="Stands in for a programmable switch: keeps the load tables of its links for the coming slots.",
        epilog="examples:\n  switchd --config /etc/paceline/switchd.toml\n"
        "  switchd --scenario scenarios/two-jobs.toml --switch sw",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--config", type=Path, metavar="FILE", help="this switch's configuration (TOML)")
    source.add_argument("--scenario", type=Path, metavar="FILE", help="a cluster on this machine, over loopback")
    parser.add_argument("--switch", metavar="NAME", help="with --scenario: which switch of it to be")
    among = ", ".join(FOR_DAEMONS)
    parser.add_argument(
        "--policy",
        choices=FOR_DAEMONS,
        default="paceline",
        metavar="NAME",
        help=f"with --scenario: {among} (default: %(default)s)",
    )
    parser.add_argument("--base-port", type=int, default=DEFAULT_PORT, help="with --scenario: of the first switch")
    parser.add_argument("--log-level", choices=("DEBUG", "INFO", "WARNING", "ERROR"), default="INFO")
    parser.add_argument("--log-json", action=argparse.BooleanOptionalAction, default=None, help="JSON lines")
    parser.add_argument("--check", action="store_true", help="check the configuration and its files, and stop")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    if argv is None:  # a program of its own
        grpc_lines.capture()
    # Imported here, because they import grpc.
    from paceline.service.handshakes.certificates import require_valid
    from switchd.daemon import SwitchDaemon

    parser = build_parser()
    args = parser.parse_args(argv)
    if args.scenario and not args.switch:
        parser.error("--scenario needs --switch NAME")
    if not 1 <= args.base_port <= 65000:
        parser.error(f"--base-port: found {args.base_port}, expected 1 to 65000")
    logs.setup(args.log_level, args.log_json)
    try:
        config = _configuration(args)
        if config.tls is not None:
            require_valid(config.tls, config.name)
    except (InputError, OSError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        print(f"switchd: {printable(reason)}", file=sys.stderr)
        return BAD_INPUT
    return 0 if args.check else run_daemon("switchd", lambda: SwitchDaemon(config, args.config))


def _configuration(args: argparse.Namespace) -> "SwitchConfig":
    from switchd.config import of_scenario, read_config, text_of

    if args.config:
        return read_config(args.config)
    return of_scenario(args.scenario, text_of(args.scenario), args.switch, args.policy, args.base_port)


if __name__ == "__main__":
    sys.exit(main())
