"""The chain from the plugin to the kernel's queues, checked with two real jobs: prints one JSON object.

Exit status 1 where a link does not hold (chain_judge.py). --break breaks a link on purpose (breaks.py); --broken breaks
each in turn, and succeeds if the check fails every time. --backend gloo is for machines without a GPU.
"""

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any

from bench.gpu.breaks import BREAKS, damage
from bench.gpu.chain import SETUPS, Setup, observe
from bench.gpu.chain_judge import Verdict, judge
from bench.jobs.launch import ready_for
from bench.testbed.accelerator import gpu
from bench.testbed.rootless import ensure_networks
from nccl_shim import build
from paceline.commands.provenance import provenance
from paceline.failure import Failure


def check(setup: Setup, broken: str | None) -> list[Verdict]:
    with damage(broken) as harm:
        seen = observe(setup, harm, sound=broken is None)
    verdicts = judge(seen)
    if broken is None and not all(one.passed for one in verdicts):
        for node, lines in seen.logs.items():
            print(*(f"{node}: {line}" for line in lines), sep="\n", file=sys.stderr)
    return verdicts


def document(verdicts: list[Verdict]) -> dict[str, Any]:
    return {"pass": all(one.passed for one in verdicts), "checks": [asdict(one) for one in verdicts]}


def check_broken(setup: Setup) -> dict[str, Any]:
    """Each link broken once; passes where every check has failed."""
    found = {}
    for link in BREAKS:
        verdicts = check(setup, link)
        noticed = sorted({one.link for one in verdicts if not one.passed})
        print(f"{link}: {'noticed by ' + ', '.join(noticed) if noticed else 'NOT NOTICED'}", file=sys.stderr)
        found[link] = {"noticed_by": noticed, **document(verdicts)}
    return {"pass": all(one["noticed_by"] for one in found.values()), "broken": found}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="nccl-check",
        description=__doc__.splitlines()[0],
        epilog="example: scripts/nccl-check --backend gloo --break sizes-wrong",
    )
    parser.add_argument("--backend", choices=[*SETUPS], default="nccl")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--break", dest="link", choices=BREAKS, help="break this link first: the check must fail")
    which.add_argument("--broken", action="store_true", help="break each link in turn: every check must fail")
    args = parser.parse_args()
    ensure_networks()
    try:
        ready_for(args.backend)
        setup = SETUPS[args.backend]
        result = check_broken(setup) if args.broken else document(check(setup, args.link))
    except (build.NoCompiler, Failure, OSError) as error:
        print(f"nccl-check: {error}", file=sys.stderr)
        return 2
    asked = {"backend": args.backend, "broken_link": args.link, "gpu": gpu()}
    print(json.dumps({**provenance(), **asked, **result}, indent=1))
    for one in () if args.broken else result["checks"]:
        word = "holds" if one["passed"] else "DOES NOT HOLD"
        print(f"{one['link']}: {one['claim']}: {one['found']}: {word}", file=sys.stderr)
    return 0 if result["pass"] else 1


if __name__ == "__main__":
    sys.exit(main())
