"""`paceline bench paper`: the paper's experiments and our own, measured, kept and resumed."""

import argparse
import json
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from paceline.commands.arguments import CommandError, add_json, integer, seed

if TYPE_CHECKING:
    from bench.experiments.experiment import Experiment, Options
    from bench.report.page import Document

RESULTS, QUICK_RESULTS = Path("out/paper"), Path("out/paper-quick")


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "paper",
        help="the paper's experiments, and our own",
        description=(
            "Run experiments by name, or all: those of the paper's section VI and those that decide whether\n"
            "Paceline keeps its promises. Each writes DIR/NAME.json. What is there is kept; an experiment that was\n"
            "interrupted goes on with the run it was in. All together take hours, on a quiet machine. With --case the\n"
            "file is DIR/NAME-CASE.json."
        ),
        epilog="examples: paceline bench paper --list\n          paceline bench paper turns loss --quick\n"
        "          paceline bench paper mixes --repeat 5",
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="experiments (default: all)")
    parser.add_argument("--list", action="store_true", help="say what there is, and run nothing")
    parser.add_argument("--quick", action="store_true", help="seconds each, without torch: to see that it works")
    parser.add_argument("--repeat", metavar="N", type=integer(1, 1000), help="runs of a kind (default: 1 to 5)")
    parser.add_argument(
        "--control",
        metavar="A,B",
        help="reno, cubic, bbr, paceline, and others to compare (default: mlcc); not for slots and overhead",
    )
    parser.add_argument(
        "--case", metavar="A,B", help="of jct: 10, 10-others, 25, 25-others; of loss: 0.2, 1 (default: all)"
    )
    parser.add_argument("--seed", metavar="N", type=seed, default=1, help="of arrivals, places and computing times")
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help=f"for results (default: {RESULTS}, with --quick {QUICK_RESULTS})"
    )
    parser.add_argument("--force", action="store_true", help="measure again what has been measured")
    add_json(parser)
    parser.set_defaults(run=run_paper)


def run_paper(args: argparse.Namespace) -> int:
    from bench.experiments.registry import EXPERIMENTS
    from bench.jobs.control_names import control_named, require_kernel
    from bench.testbed.rootless import ensure_networks
    from paceline.commands.console import print_json, print_table
    from paceline.commands.provenance import provenance

    for name in args.names:
        if name not in EXPERIMENTS:
            close = get_close_matches(name, EXPERIMENTS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(EXPERIMENTS)}"
            raise CommandError(f"no experiment {name!r}; {hint}")
    if args.case and args.force:
        raise CommandError("--force throws away the runs of all cases; without --case, or into another --out")
    chosen = [EXPERIMENTS[name] for name in dict.fromkeys(args.names or EXPERIMENTS)]
    if args.list:
        rows = [(one.name, one.figure or "our promise", str(one.repeats or 1), one.shows) for one in chosen]
        if args.json:
            print_json(
                {"experiments": [dict(zip(("name", "figure", "repeats", "shows"), row, strict=True)) for row in rows]}
            )
        else:
            print_table("Experiments", ("name", "the paper's", "repeats", "shows"), rows)
        return 0
    asked = {one.name: _options(one, args) for one in chosen}
    ensure_networks()
    require_kernel(control_named(name) for name in dict.fromkeys(chain(*(one.controls for one in asked.values()))))
    directory = args.out or (QUICK_RESULTS if args.quick else RESULTS)
    directory.mkdir(parents=True, exist_ok=True)
    kept = {} if args.force else {name: _kept(directory, name, options) for name, options in asked.items()}
    documents = []
    for number, experiment in enumerate(chosen, start=1):
        options, document = asked[experiment.name], kept.get(experiment.name)
        if document is None:
            title = f"{number}/{len(chosen)} {experiment.name}"
            document = measure(experiment, directory, options, args.force, title)
        documents.append(document)
        if not args.json:
            print_document(experiment, document)
    if args.json:
        print_json({"out": str(directory), "experiments": documents} | provenance())
    else:
        print(f"results are in {directory}; a page of them: paceline bench report --results {directory}")
    return 0


def _options(experiment: "Experiment", args: argparse.Namespace) -> "Options":
    from bench.experiments.experiment import Options

    repeats = args.repeat or (1 if args.quick else experiment.repeats) or 1
    cases = tuple(dict.fromkeys(args.case.split(","))) if args.case else ()
    if unknown := [name for name in cases if name not in experiment.cases]:
        expected = f"expected one of {', '.join(experiment.cases)}" if experiment.cases else "it has none by name"
        raise CommandError(f"{experiment.name} has no case {unknown[0]!r}; {expected}")
    return experiment.effective_options(Options(args.quick, repeats, args.seed, _controls(args.control), cases))


def _controls(text: str | None) -> tuple[str, ...]:
    from bench.experiments.experiment import COMPARED, CONTROLS
    from bench.jobs.control_names import control_named

    if text is None:
        return CONTROLS
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        control_named(name)
    if missing := [name for name in COMPARED if name not in names]:
        raise CommandError(f"--control: without {', '.join(missing)} the experiments compare nothing; add it")
    return names


def _kept(directory: Path, name: str, options: "Options") -> "Document | None":
    """The result that is in the directory already, if it was measured with these options."""
    from bench.report.page import read_result

    path = directory / f"{name}.json"
    if options.cases or not path.exists():
        return None
    document = read_result(path)
    as_asked = document["repeats"] >= options.repeats and document["seed"] == options.seed
    as_asked = as_asked and document["controls"] == [*options.controls]
    return document if as_asked and (options.quick or not document["quick"]) else None


def measure(experiment: "Experiment", directory: Path, options: "Options", force: bool, title: str) -> "Document":
    """Makes the runs that the directory does not have, and writes the result there."""
    from dataclasses import replace

    from bench.jobs.run_store import RunStore
    from paceline.commands.console import progress_bar
    from paceline.commands.provenance import commit, provenance
    from paceline.failure import Failure

    origin, at_commit = provenance(), commit()
    runs = directory / f"{experiment.name}.runs.jsonl"
    if force:
        runs.unlink(missing_ok=True)
    store = RunStore(runs, at_commit)
    started_s = perf_counter()
    with progress_bar() as bar:
        task = bar.add_task(title, total=1.0)

        def progress(doing: str, part: float) -> None:
            bar.update(task, description=f"{title}, {doing}", completed=part)

        try:
            result = experiment.run(replace(options, store=store, progress=progress))
        except Failure as error:
            raise CommandError(f"{experiment.name}: {error}") from None
    document = {
        "experiment": experiment.name,
        "figure": experiment.figure,
        "shows": experiment.shows,
        "paper": dict(experiment.paper),
        "differs": experiment.differs,
        "quick": options.quick,
        "repeats": options.repeats,
        "seed": options.seed,
        "controls": [*options.controls],
        "wall_s": store.earlier_s + perf_counter() - started_s,
        "commits": store.commits(),
        "failed_runs": store.failures,
        "disturbed_runs": store.disturbances,
        **origin,
        "result": result,
    }
    # Some cases are not the whole result; of real-jobs nobody expects the whole.
    name = "-".join((experiment.name, *(case for case in options.cases if case in experiment.cases)))
    unfinished = directory / f"{name}.json.part"
    unfinished.write_text(json.dumps(document, indent=1, allow_nan=False), encoding="utf-8")
    unfinished.replace(directory / f"{name}.json")
    return document


def print_document(experiment: "Experiment", document: "Document") -> None:
    from bench.report.parts import Table
    from paceline.commands.console import print_table

    for part in experiment.present(document["result"]):
        if isinstance(part, Table):
            print_table(f"{experiment.name}: {part.title}", part.columns, part.rows)
    checks = document["result"].get("checks", ())
    words = {True: "yes", False: "NO", None: "not all measured"}
    if checks:
        rows = [(check["claim"], check["found"], words[check["passed"]]) for check in checks]
        print_table(f"{experiment.name}: promises", ("claim", "found", "kept"), rows)
    if len(document["commits"]) > 1:
        print(f"{experiment.name}: runs of several commits ({', '.join(document['commits'])}); --force makes all anew")
