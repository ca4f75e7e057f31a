"""`paceline cluster`: what schedulers of whole clusters compute."""

import argparse
from pathlib import Path
from time import perf_counter
from typing import Any

from paceline.commands.arguments import CommandError, add_json


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "cluster",
        help="how jobs fit on links",
        description="What schedulers of whole clusters compute.",
        epilog="example: paceline cluster circle scenarios/circles/lcm.toml --out circles.png",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    circle = commands.add_parser(
        "circle",
        help="CASSINI's circles: which jobs interleave on a link, and how far each must turn",
        description=(
            "Roll the traffic of jobs around circles and turn them until they interleave (CASSINI §3, §4).\n\n"
            "score is 1 where demand never exceeds a link's capacity; shift delays a job's next iteration."
        ),
        epilog="example: paceline cluster circle scenarios/circles/snapshots.toml --out circles.png",
    )
    circle.add_argument("file", metavar="FILE", type=Path, help="jobs and links (TOML)")
    circle.add_argument("--out", metavar="OUT.png", type=Path, help="draw the circles before and after rotation")
    add_json(circle)
    circle.set_defaults(run=run_circle)


def run_circle(args: argparse.Namespace) -> int:
    from paceline.cluster.cassini.link_file import read_links
    from paceline.commands.console import print_json, print_table
    from paceline.commands.provenance import provenance
    from paceline.flowcore.allocation.shifts.plan import plan
    from paceline.sim.report.figure import FigureError, require_figures

    links = read_links(args.file)
    begun_s = perf_counter()
    found = plan(links)
    taken_ms = 1e3 * (perf_counter() - begun_s)
    if args.out:
        from paceline.commands.view.circle_figure import draw_circles

        try:
            require_figures(args.out)
        except FigureError as error:
            raise CommandError(str(error)) from None
        draw_circles(links, found, args.out)
    if args.json:
        rows = [
            {
                "link": name,
                "score": rotation.score,
                "unrotated_score": rotation.unrotated_score,
                "perimeter_ms": rotation.perimeter_ms,
                "degrees": dict(zip(links[name].profiles, rotation.degrees, strict=True)),
            }
            for name, rotation in found.rotations.items()
        ]
        document = {"links": rows, "score": found.score, "loop": found.loop, "shifts_ms": found.shifts_ms}
        document |= {"iterations_ms": found.iterations_ms, "plan_ms": taken_ms}
        print_json(document | {"figure": str(args.out) if args.out else None} | provenance())
        return 0
    lines = []
    for name, rotation in found.rotations.items():
        for job, angle in zip(links[name].profiles, rotation.degrees, strict=True):
            first = job == next(iter(links[name].profiles))
            shift_ms = found.shifts_ms.get(job)
            lines.append(
                (
                    name if first else "",
                    f"{rotation.unrotated_score:.2f}" if first else "",
                    f"{rotation.score:.2f}" if first else "",
                    job,
                    f"{found.iterations_ms[job]:g} ms",
                    f"{angle:.0f}°",
                    "in a loop" if shift_ms is None else f"{shift_ms:.0f} ms",
                )
            )
    columns = ("link", "score", "rotated", "job", "iteration", "turned by", "shifted by")
    print_table(f"{args.file.name}: mean score {found.score:.2f}", columns, lines)
    if args.out:
        print(f"drew {args.out}")
    return 0
