"""One page of all results: claims kept and not, then each experiment beside the paper.

The page contains its style and figures, and refers to nothing outside. An experiment that has not been measured is
named, with the command that measures it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from types import NoneType
from typing import Any

from bench.experiments.experiment import Experiment
from bench.experiments.registry import EXPERIMENTS, SHOWN
from bench.report import svg
from bench.report.parts import Bars, Layers, Lines, Part, Table
from paceline.failure import Failure

Document = Mapping[str, Any]  # what `paceline bench paper` wrote
PAPER_COMMAND = "paceline bench paper"
KEYS: dict[str, type | tuple[type, ...]] = {
    "experiment": str, "quick": bool, "repeats": int, "seed": int, "controls": list, "wall_s": (int, float),
    "failed_runs": list, "result": dict,
    "version": str, "commit": (str, NoneType), "commits": list, "machine": dict,  # where it comes from
}  # fmt: skip

LIMITS = (
    "Links faster than about 1 Gbit/s: the kernel of one machine forwards a few in all. Models are scaled down "
    "with the links, so that bursts last as long as the paper's.",
    "GPUs: computing is a sleep. What hostd's CPU time costs a job that computes on the CPU is not seen.",
    "Delay: a cable here takes microseconds. Slow start and TCP's recovery from loss are quicker than elsewhere.",
    "A switch that drops single packets: queues here hold bundles of packets.",
    "DCTCP, PCC, Aurora and DeepCC: not run. The learned ones need their authors' models.",
    "The 48-GPU cloud cluster of Fig. 14 and the trace-driven simulation of Fig. 15 (see `paceline sim`).",
)

STYLE = """
:root { color-scheme: light dark; --quiet: #8886; --good: #009E73; --bad: #D55E00; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0 } h2 { margin-top: 3rem; border-top: 1px solid var(--quiet); padding-top: 1rem }
table { border-collapse: collapse; margin: 1rem 0; font-size: 14px }
caption { text-align: left; font-weight: 600; padding: .3rem 0 }
th, td { padding: .2rem .7rem; border-bottom: 1px solid var(--quiet); text-align: right }
th:first-child, td:first-child { text-align: left }
.words td, .words th { text-align: left } .quiet { opacity: .75 } .scroll { overflow-x: auto }
.kept { color: var(--good) } .broken { color: var(--bad) } figure { margin: 1.2rem 0 }
figcaption { font-weight: 600; font-size: 14px }
svg { width: 100%; font: 12px system-ui, sans-serif; fill: currentColor }
.grid { stroke: var(--quiet) } .ink { stroke: currentColor } .line { fill: none; stroke-width: 2 }
.level { stroke: currentColor; stroke-dasharray: 5 4 }
code { background: var(--quiet); padding: 0 .3em; border-radius: 3px }
"""


def read_results(directory: Path) -> dict[str, Document]:
    """By experiment, in the order of the registry."""
    paths = {name: directory / f"{name}.json" for name in SHOWN}
    return {name: read_result(path) for name, path in paths.items() if path.exists()}


def read_result(path: Path) -> Document:
    """The result of the experiment that the file is named after; raises Failure for anything else."""
    document = read_object(path, PAPER_COMMAND)
    whole = all(isinstance(document.get(key, ...), kind) for key, kind in KEYS.items())
    if not whole or document["experiment"] != path.stem or not _can_be_shown(document):
        raise _no_result(path, PAPER_COMMAND)
    return document


def _can_be_shown(document: Document) -> bool:
    """Another version may have written something else."""
    try:
        _section(SHOWN[document["experiment"]], document)
        _promises({document["experiment"]: document})
        _origin([document])
    except (LookupError, TypeError, ValueError, AttributeError, StopIteration):
        return False
    return True


def read_object(path: Path, made_by: str) -> Document:
    """Raises Failure unless the file holds a JSON object."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise _no_result(path, made_by)
    return document


def _no_result(path: Path, made_by: str) -> Failure:
    return Failure(f"{path}: no result of `{made_by}`; move it away and measure again")


def page(documents: Mapping[str, Document]) -> str:
    missing = [experiment for name, experiment in EXPERIMENTS.items() if name not in documents]
    sections = [_section(SHOWN[name], document) for name, document in documents.items()]
    body = [
        "<h1>Paceline, measured</h1>",
        f'<p class="quiet">{_origin(documents.values())}</p>',
        "<p>Real jobs on hosts made of network namespaces, beside section VI of the paper "
        "<i>Dynamic Flow Scheduling for DNN Training Workloads in Data Centers</i>. "
        "± and whiskers are 95 % intervals over the repeats.</p>",
        _promises(documents),
        *sections,
        _missing(missing),
        f"<h2>What one machine cannot show</h2>\n<ul>{''.join(f'<li>{escape(limit)}</li>' for limit in LIMITS)}</ul>",
    ]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Paceline, measured</title>'
    return (
        f'<!doctype html>\n<html lang="en">\n<head>{head}<style>{STYLE}</style></head>\n<body>\n'
        + "\n".join(part for part in body if part)
        + "\n</body>\n</html>\n"
    )


def _origin(documents: Iterable[Document]) -> str:
    """Where the numbers come from: every version, commit, seed and machine."""
    machines, commits, seeds, versions = set(), set(), set(), set()
    for document in documents:
        machine = document["machine"]
        machines.add(f"{machine['cpus']} × {machine['machine']}, {machine['system']}, Python {machine['python']}")
        commits |= {str(document["commit"]), *document["commits"]}
        seeds.add(str(document["seed"]))
        versions.add(document["version"])
    parts = {"version": versions, "commit": commits, "seed": seeds, "machine": machines}
    return " · ".join(f"{what} {escape(', '.join(sorted(values)))}" for what, values in parts.items() if values)


def _promises(documents: Mapping[str, Document]) -> str:
    rows = []
    for name, document in documents.items():
        for check in document["result"].get("checks", ()):
            kind, word = {True: ("kept", "yes"), False: ("broken", "no"), None: ("quiet", "–")}[check["passed"]]
            cells = (f'<a href="#{name}">{name}</a>', escape(check["claim"]), escape(check["found"]))
            rows.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}<td class={kind}>{word}</td></tr>")
    if not rows:
        return ""
    kept = sum("class=kept" in row for row in rows)
    head = "<tr><th>experiment<th>claim<th>found<th>kept</tr>"
    title = f"<h2>Promises: {kept} of {len(rows)} kept</h2>"
    return f'{title}\n<div class="scroll"><table class="words">{head}{"".join(rows)}</table></div>'


def _section(experiment: Experiment, document: Document) -> str:
    figure = f" ({experiment.figure})" if experiment.figure else ""
    parts = [
        f'<h2 id="{experiment.name}">{experiment.name}{escape(figure)}</h2>',
        f"<p>Shows {escape(experiment.shows)}.</p>",
    ]
    if document["quick"]:
        parts.append('<p class="broken">A quick run: it shows that the experiment works; its numbers mean nothing.</p>')
    if experiment.paper:
        here = experiment.here(document["result"])
        rows = "".join(
            f"<tr><td>{escape(what)}<td>{escape(said)}<td>{escape(here.get(what, '–'))}</tr>"
            for what, said in experiment.paper.items()
        )
        parts.append(f'<table class="words"><tr><th><th>the paper<th>here</tr>{rows}</table>')
    parts += [_part(part) for part in experiment.present(document["result"])]
    if experiment.differs:
        parts.append(f"<p>Not as in the paper: {escape(experiment.differs)}</p>")
    parts.append(f'<p class="quiet">{_making(document)}</p>')
    return "\n".join(parts)


def _making(document: Document) -> str:
    commits = ", ".join(document["commits"] or [str(document["commit"])])
    said = f"{document['repeats']} repeats, commit {commits}, seed {document['seed']}, {document['wall_s']:.0f} s"
    failed = document["failed_runs"]
    said += f"; {len(failed)} runs failed and were made again: {failed[0]}" if failed else ""
    disturbed = document.get("disturbed_runs")
    return escape(said + (f"; {len(disturbed)} disturbed runs were kept: {disturbed[0]}" if disturbed else ""))


def _part(part: Part) -> str:
    if isinstance(part, Table):
        return _table(part)
    draw = {Bars: svg.bars, Lines: svg.lines, Layers: svg.layers}[type(part)]
    return f"<figure><figcaption>{escape(part.title)}</figcaption>{draw(part)}</figure>"  # type: ignore[operator]


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table.rows)
    return f'<div class="scroll"><table><caption>{escape(table.title)}</caption><tr>{head}</tr>{rows}</table></div>'


def _missing(experiments: Sequence[Experiment]) -> str:
    if not experiments:
        return ""
    rows = "".join(
        f"<li>{escape(one.name)}{f' ({one.figure})' if one.figure else ''}: {escape(one.shows)}. "
        f"<code>paceline bench paper {one.name}</code></li>"
        for one in experiments
    )
    return f"<h2>Not measured yet</h2>\n<ul>{rows}</ul>"
