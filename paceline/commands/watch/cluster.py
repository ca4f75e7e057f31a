"""`paceline status --cluster`: all hosts, as their switches know them."""

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from paceline.commands.arguments import CommandError
from paceline.commands.watch.sources import DEFAULT_SWITCH, SwitchAddress, add_switches, switches_of

if TYPE_CHECKING:
    from paceline.wire.host_state import HostState
    from paceline.wire.watching import Snapshot

ANSWER_S = 5.0


def extend(parser: argparse.ArgumentParser) -> None:
    """The parser of `paceline status`."""
    what = f"all hosts, as their switches know them (--switch, --scenario; default: the switch at {DEFAULT_SWITCH})"
    parser.add_argument("--cluster", action="store_true", help=what)
    add_switches(parser)
    parser.epilog = f"{parser.epilog}\n         paceline status --cluster --switch 10.0.0.1:7400 --switch 10.0.1.1:7400"
    parser.set_defaults(run=run, of_host=parser.get_default("run"))


def run(args: argparse.Namespace) -> int:
    if not args.cluster:
        if args.switch or args.scenario:
            raise CommandError("--switch and --scenario belong to --cluster (see: paceline status --help)")
        return int(args.of_host(args))
    import asyncio

    import paceline.service  # noqa: F401  before grpc: it silences grpc's own log lines

    switches = switches_of(args) or [SwitchAddress("", DEFAULT_SWITCH, None)]
    found = asyncio.run(_asked(switches))
    if all(isinstance(one, str) for one in found.values()):
        [(switch, why), *_] = found.items()
        raise CommandError(f"{switch.address}: {why}")
    document = {"switches": [_switch(*one) for one in found.items()], "hosts": list(_hosts(found))}
    if args.json:
        from paceline.commands.console import print_json

        print_json(document)
    else:
        _print(document)
    return 0


async def _asked(switches: list[SwitchAddress]) -> "dict[SwitchAddress, Snapshot | str]":
    """A snapshot of each, or why there is none."""
    import asyncio

    return dict(zip(switches, await asyncio.gather(*map(_ask, switches)), strict=True))


async def _ask(switch: SwitchAddress) -> "Snapshot | str":
    import asyncio
    from contextlib import aclosing

    import grpc

    from paceline.wire.codec import BadMessage
    from paceline.wire.watching import watch

    try:
        async with switch.open_channel() as channel, aclosing(watch(channel, host_states=True)) as snapshots:
            return await asyncio.wait_for(anext(snapshots), ANSWER_S)
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            return await asyncio.to_thread(switch.why_not) or "no switch listens there"
        return str(error.details())
    except TimeoutError:
        return f"no answer within {ANSWER_S:g} s"
    except (BadMessage, StopAsyncIteration) as error:
        return str(error) or "it ended the stream"


# ---- What is known ----


def _switch(switch: SwitchAddress, found: "Snapshot | str") -> dict[str, Any]:
    if isinstance(found, str):
        return {"name": switch.name or None, "address": switch.address, "answers": False, "why": found}
    return {
        "name": found.switch,
        "address": switch.address,
        "answers": True,
        "why": None,
        "policy": found.policy or None,
        "slot_ms": found.slot_length_ns / 1e6,
        "silent_switches": list(found.silent),
        "refused": found.refused,
    }


def _hosts(found: "Mapping[SwitchAddress, Snapshot | str]") -> Iterator[dict[str, Any]]:
    from paceline.flowcore.model.job_names import readable

    snapshots = [one for one in found.values() if not isinstance(one, str)]
    jobs = {job.name for one in snapshots for state in one.host_states.values() for job in state.jobs}
    shown = readable(jobs)
    for snapshot in snapshots:
        for host in sorted({*snapshot.own_hosts, *snapshot.hosts}, key=_in_order):
            connected = host in snapshot.hosts
            row = {"name": host, "switch": snapshot.switch, "connected": connected}
            yield row | _told(snapshot.host_states.get(host), shown)


def _in_order(name: str) -> tuple[str, int]:
    """h2 before h10."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or -1)


def _told(state: "HostState | None", shown: Mapping[str, str]) -> dict[str, Any]:
    if state is None:
        keys = ("mode", "backend", "version", "enforcing", "missed_slots")
        return {**dict.fromkeys(keys), "jobs": [], "job_count": None, "troubles": {}}
    return {
        "mode": state.mode,
        "backend": state.backend,
        "version": state.version,
        "enforcing": state.enforcing,
        "missed_slots": state.missed_slots,
        "jobs": [
            {
                "name": shown[job.name],
                "phase": job.phase,
                "controlled": job.paced,
                "iteration": job.iteration,
                "iteration_ms": job.iteration_ms,
                "slowdown": job.slowdown,
                "not_paced": list(job.why),
            }
            for job in state.jobs
        ],
        "job_count": state.job_count,
        "troubles": dict(state.troubles),
    }


# ---- Text ----


def _print(document: Mapping[str, Any]) -> None:
    from paceline.commands.console import print_table
    from paceline.flowcore.model.fields import printable

    hosts = document["hosts"]
    connected = sum(host["connected"] for host in hosts)
    columns = ("host", "switch", "", "mode", "backend", "jobs paced", "missed", "version")
    print_table(f"{connected} of {len(hosts)} hosts are connected", columns, map(_cells, hosts))
    for switch in document["switches"]:
        if not switch["answers"]:
            print(printable(f"switch {switch['name'] or switch['address']} is away: {switch['why']}"))
        elif switch["silent_switches"]:
            print(printable(f"switch {switch['name']} cannot reach {', '.join(switch['silent_switches'])}"))
    for host in hosts:
        for job in host["jobs"]:
            slowdown = f", {job['slowdown']:.2f} times as slow as alone" if job["slowdown"] else ""
            print(printable(f"{host['name']}: {job['name']}  {job['phase']}{slowdown}"))
            for why in job["not_paced"]:
                print(printable(f"    not paced, or not all of it: {why}"))
        for reason, count in host["troubles"].items():
            print(printable(f"{host['name']}: {count} × {reason}"))


def _cells(host: Mapping[str, Any]) -> tuple[str, ...]:
    from paceline.flowcore.model.fields import printable

    state = "connected" if host["connected"] else "away"
    if host["mode"] is None:
        known: tuple[str, ...] = ("", "", "", "", "")
    else:
        paced = sum(job["controlled"] for job in host["jobs"])
        jobs = f"{paced} of {host['job_count']}"
        known = (host["mode"], host["backend"], jobs, str(host["missed_slots"]), host["version"])
    return tuple(map(printable, (host["name"], host["switch"], state, *known)))
