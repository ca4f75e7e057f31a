"""docs/papers.md, written from what `paceline sim paper NAME --json` printed. `scripts/papers` does both."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from paceline.sim.papers.claim import shown

OPENING = """\
# The papers, repeated

    paceline sim paper --list
    paceline sim paper ada-srsf               # --quick: a cut of it in a minute; --seeds N; --json
    paceline sim paper dally --results out/dally.jsonl --figure out/dally.png     # goes on where it was; draws
    ./scripts/papers                          # all of them, and this page

Each paper's set-up as the paper has it, what is assumed where it is silent, and every claim beside what comes out here.
`paceline/sim/papers/` has a file per paper. *Here* is the mean over the seeds, with the least and the most of them
beside it. A claim with a figure holds if the mean reaches two thirds of it, an order if the mean is above 0: one
rule for all. Where a claim does not hold, the last column says what the runs show of the reason.
"""


def page(documents: Sequence[Mapping[str, Any]]) -> str:
    sections = ("\n".join(_section(document)) for document in documents)
    return "\n".join([OPENING, *_overview(documents), "", *sections])


def _overview(documents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "| paper | its claims that hold | minutes of one core |"
    yield "| --- | --- | --- |"
    for document in documents:
        theirs, held = _theirs(document["claims"])
        yield f"| {document['paper']} | {held} of {theirs} | {document.get('cpu_s', 0.0) / 60:.0f} |"


def _section(document: Mapping[str, Any]) -> Iterator[str]:
    name = document["paper"]
    yield f"## {document['title']}\n"
    command = f"paceline sim paper {name}{' --quick' if document['quick'] else ''} --seeds {document['seeds']}"
    cut = f": {document['cut']}" if document["quick"] else ""
    cost = f" {document['cpu_s'] / 60:.0f} minutes of one core." if document.get("cpu_s", 0.0) >= 60.0 else ""
    yield f"`{command}`{cut} ([results](results/papers/{name}.json)).{cost}\n"
    if document.get("figure"):
        yield f"![{document['title']}: its figure with what comes out here]({Path(document['figure']).name})\n"
    yield f"**As the paper has it.** {document['set_up']}\n"
    yield "**Assumed.**\n"
    yield from (f"- {line}" for line in document["assumed"])
    yield f"\n{_count(document['claims'])}\n"
    yield "| claim | section | paper | here | least … most | holds | why, and what it rests on |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    said = ""
    for claim in document["claims"]:
        least, most = claim["spread"]
        why, said = "as above" if claim["why"] == said else claim["why"], claim["why"]
        cells = [
            claim["claim"],
            claim["section"],
            shown(claim["paper"], claim["unit"]),
            shown(claim["here"], claim["unit"]),
            f"{least:.1f} … {most:.1f}",
            "yes" if claim["holds"] else "**no**",
            why,
        ]
        yield f"| {' | '.join(cells)} |"
    yield ""


def _theirs(claims: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """How many claims are the paper's, and how many of those hold."""
    theirs = [claim for claim in claims if not _ours(claim)]
    return len(theirs), sum(claim["holds"] for claim in theirs)


def _count(claims: Sequence[Mapping[str, Any]]) -> str:
    theirs, held = _theirs(claims)
    ours = len(claims) - theirs
    also = f" The other {ours} lines (“…”, “ours”) are runs that show a reason, or claims of ours." if ours else ""
    return f"Of {theirs} claims of the paper {held} hold here.{also}"


def _ours(claim: Mapping[str, Any]) -> bool:
    return claim["section"] == "ours" or claim["claim"].startswith("…") or "(ours)" in claim["claim"]
