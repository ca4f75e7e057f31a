"""hostd: the daemon on every GPU host. `hostd --help`."""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from hostd.config import read_config
from hostd.daemon import HostDaemon
from hostd.enforce.settings import BACKENDS
from hostd.preflight import refuse_what_cannot_work, warnings
from hostd.safety.instance import only_hostd_here
from paceline.flowcore.model.fields import InputError, printable
from paceline.service import logs
from paceline.service.arguments import DaemonParser
from paceline.service.lifecycle import BAD_INPUT, reason_of, run_daemon
from paceline.service.lockfile import AlreadyRunning

_log = logging.getLogger("hostd")


def build_parser() -> DaemonParser:
    parser = DaemonParser(
        prog="hostd",
        description="Paces the bursts of the training jobs on this host, together with its switch.",
        epilog="example: hostd --config /etc/paceline/hostd.toml",
        allow_abbrev=False,
    )
    parser.add_argument("--config", type=Path, metavar="FILE", required=True, help="this host's configuration (TOML)")
    parser.add_argument("--backend", choices=BACKENDS, help="instead of the configuration's")
    takeover = "replace a qdisc that hostd did not set, and put it back at the end"
    parser.add_argument("--takeover", action="store_true", help=takeover)
    parser.add_argument(
        "--check", action="store_true", help="check the configuration, and its files, on this host, and stop"
    )
    parser.add_argument("--journal", type=Path, metavar="FILE", help="write every event and decision to FILE")
    parser.add_argument("--log-level", choices=("DEBUG", "INFO", "WARNING", "ERROR"), default="INFO")
    parser.add_argument("--log-json", action=argparse.BooleanOptionalAction, default=None, help="JSON lines")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    logs.setup(args.log_level, args.log_json)
    overrides = {name: value for name in ("backend", "takeover") if (value := getattr(args, name))}
    try:
        config = read_config(args.config, **overrides)
        refuse_what_cannot_work(config, str(args.config))
        for warning in warnings(config):
            if args.check:
                print(f"hostd: warning: {printable(f'{args.config}: {warning}')}", file=sys.stderr)
            else:
                _log.warning("%s: %s", args.config, warning)
        if args.check:
            return 0
        config.runtime_directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        with only_hostd_here():
            return run_daemon("hostd", lambda: HostDaemon(config, args.config, args.journal, overrides), config.lock)
    except (InputError, AlreadyRunning, OSError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        print(f"hostd: {printable(reason)}", file=sys.stderr)
        return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
