"""`paceline probe`, `status`, `top`, `explain`, `release`: questions and orders to the daemon on a host."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.commands.arguments import CommandError, add_json

if TYPE_CHECKING:
    from hostd.enforce.probe import Finding

RUNTIME_DIRECTORY = Path("/run/paceline/hostd")


def add_parser(subparsers: Any) -> None:
    probe = subparsers.add_parser(
        "probe",
        help="what works on this host, why not, and what to change",
        description="Find out which ways of enforcing rates work on this host. Changes nothing.",
        epilog="example: paceline probe",
    )
    add_json(probe)
    probe.set_defaults(run=run_probe)
    status = _command(subparsers, "status", "jobs, flows and rates on this host", run_status)
    add_json(status)
    top = _command(subparsers, "top", "the same, live", run_top)
    top.add_argument("--once", action="store_true", help="print once and stop")
    explain = _command(subparsers, "explain", "why a flow has the rate it has, or a job is not paced", run_explain)
    explain.add_argument("flow", help='a flow or a job, as `paceline status` names it: "bert/ring/h0>h1" or bert')
    add_json(explain)
    release = _command(subparsers, "release", "lift every limit now, or those of one job", run_release)
    which = release.add_mutually_exclusive_group(required=True)
    which.add_argument("job", nargs="?", metavar="JOB", help="this job's, until the next reload of hostd")
    which.add_argument("--all", action="store_true", help="every limit on this host")
    add_json(release)


def _command(subparsers: Any, name: str, what: str, run: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=f"example: paceline {name}" + {"explain": " bert/ring/h0>h1", "release": " --all"}.get(name, ""),
    )
    where = "hostd's runtime directory (default: %(default)s)"
    parser.add_argument("--runtime-directory", type=Path, default=RUNTIME_DIRECTORY, metavar="DIR", help=where)
    parser.set_defaults(run=run)
    return parser


def run_probe(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from hostd.enforce.probe import by_job, carrying, choose, probe
    from hostd.enforce.settings import BACKENDS
    from hostd.enforce.weighing.weigher import probe_weights
    from hostd.kernel.devices import read_devices
    from hostd.kernel.netlink import Netlink
    from paceline.commands.console import print_json, print_table

    findings = [*probe(), probe_weights(), _nccl_plugin()]
    with Netlink() as netlink:
        chosen = choose(findings, carrying(read_devices(netlink)))
    if args.json:
        backends = [asdict(finding) for finding in findings if finding.name in BACKENDS]
        others = [asdict(finding) for finding in findings if finding.name not in BACKENDS]
        print_json({"chosen": chosen, "by_job": by_job(chosen), "backends": backends, "findings": others})
        return 0
    rows = [(f.name, "yes" if f.usable else "no", f.reason, f.advice) for f in findings]
    print_table(f"This host; hostd would use {chosen}", ("", "works", "because", "what to change"), rows)
    for jobs, backend in by_job(chosen).items():
        print(f"{jobs}: {backend}")
    return 0


def _nccl_plugin() -> "Finding":
    from hostd.enforce.probe import Finding
    from nccl_shim.segment.clibrary import LibraryUnusable, library_path, load_library

    try:
        load_library()
    except LibraryUnusable as error:
        advice = "install a C compiler, then Paceline again, or run python -m nccl_shim.build"
        return Finding("NCCL plugin", False, f"NCCL's traffic is not counted: {error}", advice)
    return Finding("NCCL plugin", True, str(library_path()))


def run_status(args: argparse.Namespace) -> int:
    from paceline.commands.console import print_json

    found = ask_hostd(args.runtime_directory, "status")
    if args.json:
        print_json(found)
    else:
        _print(found)
    return 0


def run_top(args: argparse.Namespace) -> int:
    from rich.live import Live

    from paceline.commands.keyboard import is_leaving, keys
    from paceline.commands.view.host_view import host_view

    found = ask_hostd(args.runtime_directory, "status")
    if args.once or not sys.stdout.isatty():
        _print(found)
        return 0
    with keys() as keyboard, Live(screen=True, refresh_per_second=8) as live:
        while True:
            live.update(host_view(found, live.console.width))
            if is_leaving(keyboard, 0.25):
                return 0
            found = ask_hostd(args.runtime_directory, "status")


def run_explain(args: argparse.Namespace) -> int:
    from paceline.commands.console import print_json, print_table

    found = ask_hostd(args.runtime_directory, "explain", flow=args.flow)
    if args.json:
        print_json(found)
        return 0
    if "flows" in found:
        _print_job(found)
        return 0
    for one in found["not_paced"]:
        print(f"not paced, or not all of its job: {one['why']}")
    print(f"{found['flow']}: {rate(found['rate_bps'])} guaranteed, up to {rate(found['ceiling_bps'])}")
    if (flows := found.get("stands_for", 1.0)) != 1.0:
        print(f"beside     other traffic it counts for {flows:g} flows: itself and those that wait")
    print(f"because {found['because']}")
    print(f"path       {' '.join(found['path'])}")
    print(f"bottleneck {_bottleneck(found['bottleneck'])}")
    print(f"decided by {found['decided_by']}{' (at the floor)' if found['at_floor'] else ''}")
    job, bid = found["job"], found["bid"]
    weight = f"weight {job['weight']:g}, " if job.get("weight", 1.0) != 1.0 else ""
    print(f"job        {weight}slowdown {job['slowdown']:.2f}, computes {job['compute_ms']:.0f} ms, then needs "
          f"{job['exchange_alone_ms']:.0f} ms of network alone; {bid['remaining_ms']:.0f} ms left")  # fmt: skip
    depends = found["dependency"]
    if depends["upstream"]:
        waits = "and waits for them" if depends["waits_for_preds"] else "and is not held back by them"
        print(f"depends on {', '.join(depends['upstream'])} {waits}")
    if found["slots"]:
        rows = [
            (str(slot["slot"]), f"{slot['price']:.2f}", rate(slot["available_bps"]), rate(slot["planned_bps"]))
            for slot in found["slots"]
        ]
        print_table("Coming slots", ("slot", "price", "path has left", "planned"), rows)
    return 0


def run_release(args: argparse.Namespace) -> int:
    """By the daemon if it answers, else from its undo log: both lift everything. One job's limits only hostd knows."""
    from hostd.introspect.control import ask
    from hostd.safety.undo_log import BadUndoLog, release
    from paceline.commands.console import print_json

    if args.job is not None:
        return _release_job(args)
    problems: Mapping[str, str] = {}
    try:
        by = "hostd"
        answer = ask(args.runtime_directory / "control.sock", "release")
        if "error" in answer:
            raise CommandError(str(answer["error"]))
        problems = answer["problems"]
    except OSError:
        by, journal = "the lease journal", args.runtime_directory / "lease.json"
        if not journal.exists():
            by = "nobody"
        try:
            problems = release(journal)
        except BadUndoLog as error:
            raise CommandError(str(error)) from None
    if args.json:
        print_json({"released_by": by, "problems": dict(problems)})
    elif problems:
        _print_problems(problems)
    elif by == "nobody":
        print(f"nothing to lift: no hostd answers in {args.runtime_directory}, and there is no lease journal")
    else:
        print(f"every limit is lifted (by {by})")
    return 1 if problems else 0


def _release_job(args: argparse.Namespace) -> int:
    from paceline.commands.console import print_json

    problems = ask_hostd(args.runtime_directory, "release", job=args.job)["problems"]
    if args.json:
        print_json({"released_by": "hostd", "job": args.job, "problems": dict(problems)})
    elif problems:
        _print_problems(problems)
    else:
        print(f"the limits of {args.job} are lifted, until hostd is reloaded or restarted")
    return 1 if problems else 0


def _print_problems(problems: Mapping[str, str]) -> None:
    for key, problem in problems.items():
        print(f"could not restore {key}: {problem}")


def ask_hostd(directory: Path, command: str, **arguments: object) -> dict[str, Any]:
    from hostd.introspect.control import ask
    from hostd.introspect.users import USERS_SOCKET

    path = directory / "control.sock"
    try:
        try:
            answer = ask(path, command, **arguments)
        except PermissionError:  # for root and hostd's user alone; every user may ask of own jobs
            answer = ask(directory / USERS_SOCKET, command, **arguments)
    except PermissionError:
        raise CommandError(f"{path}: permission denied; ask as root or as hostd's own user") from None
    except OSError as error:
        raise CommandError(f"no hostd answers at {path} ({error.strerror or error}); is it running?") from None
    if "error" in answer:
        raise CommandError(str(answer["error"]))
    return answer


# ---- Text ----


def rate(bps: float | None) -> str:
    if bps is None:
        return "unlimited"
    return f"{bps / 1e9:.2f} Gbit/s" if bps >= 1e9 else f"{bps / 1e6:.0f} Mbit/s"


def _bottleneck(found: Mapping[str, Any]) -> str:
    if not found["links"]:
        return f"not known: {found['why']}"
    which = found["link"] or f"one of {', '.join(found['links'])}"
    price = f" at price {found['price']:.2f}" if found["price"] is not None else ""
    return f"{which}{price}, {rate(found['room_bps'])} left by others ({found['why']})"


def _print_job(found: Mapping[str, Any]) -> None:
    slowdown = f", {found['slowdown']:.2f} times as slow as alone" if found["slowdown"] is not None else ""
    print(f"{found['job']}: {'paced' if found['controlled'] else 'not paced'}, {found['phase']}{slowdown}")
    if found.get("weight") is not None:  # an older hostd says none
        print(f"weight {found['weight']:g}: {found['why_weight']}")
    if found.get("iterations_left") is not None:
        print(f"{found['iterations_left']} iterations left, by what it says; with the objective jct that counts")
    for one in found["not_paced"]:
        print(f"{one['reason']}: {one['why']}")
    for flow in found["flows"]:
        print(f"flow {flow}")


def _print(found: Mapping[str, Any]) -> None:
    from rich.console import Console

    from paceline.commands.view.host_view import host_view

    console = Console(markup=False, highlight=False)
    with console.capture() as text:
        console.print(host_view(found, console.width))
    print(text.get(), end="")
