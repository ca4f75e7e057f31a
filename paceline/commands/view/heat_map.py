"""A switch's table as a heat map for the terminal: a row per link, a cell per slot, darker and redder the fuller.

Shade and colour say the same, so that neither a terminal without colours nor a colour-blind reader loses anything.
"""

from rich.console import Group
from rich.table import Table
from rich.text import Text

from paceline.flowcore.model.fields import printable
from paceline.wire.watching import LinkLoad, Snapshot

SHADES = " ░▒▓█"  # empty, and a quarter each
COLOURS = ("default", "green", "yellow", "dark_orange", "red")


def heat_map(snapshot: Snapshot, most_links: int | None = None) -> Group:
    """Links in the table's order; if they are too many, the fullest of them."""
    shown = snapshot.links
    if most_links is not None and len(shown) > most_links:
        fullest = set(sorted(shown, key=_peak, reverse=True)[:most_links])
        shown = tuple(link for link in shown if link in fullest)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("link")
    others = any(link.others_bps for link in shown)
    for title in ("Gbit/s", "flows", *["others"] * others, "now"):
        table.add_column(title, justify="right")
    table.add_column(f"next {_span_ms(snapshot):g} ms")
    for link in shown:
        now = link.load_bps[0] / link.capacity_bps if link.load_bps and link.capacity_bps else 0.0
        cells = [printable(link.link), f"{link.capacity_bps / 1e9:g}", str(link.flows)]
        if others:  # flows of no job, as a part of the link like all that is loaded now
            cells.append(f"{link.others_bps / link.capacity_bps:.0%}" if link.others_bps and link.capacity_bps else "")
        cells.append(f"{now:.0%}")
        table.add_row(*map(Text, cells), _cells(link))
    above = [Text(_headline(snapshot), style="bold"), Text(_counts(snapshot)), Text()]
    return Group(*above, table, *_hidden(snapshot, shown))


def _cells(link: LinkLoad) -> Text:
    text = Text()
    for load_bps in link.load_bps:
        step = shade(load_bps / link.capacity_bps if link.capacity_bps else 0.0)
        text.append(SHADES[step] * 2, style=COLOURS[step])
    return text


def shade(ratio: float) -> int:
    """0 for an empty slot, then a step per quarter; full is 4."""
    return 0 if ratio <= 0.0 else min(len(SHADES) - 1, 1 + int(min(ratio, 1.0) * (len(SHADES) - 1)))


def _peak(link: LinkLoad) -> float:
    return max(link.load_bps, default=0.0) / link.capacity_bps if link.capacity_bps else 0.0


def _span_ms(snapshot: Snapshot) -> float:
    slots = max((len(link.load_bps) for link in snapshot.links), default=0)
    return slots * snapshot.slot_length_ns / 1e6


def _headline(snapshot: Snapshot) -> str:
    hosts = len(snapshot.hosts)
    line = f"{snapshot.switch}  slot {snapshot.slot}  {hosts} host{'s' * (hosts != 1)}"
    return printable(line + (f"  silent: {', '.join(snapshot.silent)}" if snapshot.silent else ""))


def _counts(snapshot: Snapshot) -> str:
    refused = ", ".join(f"{reason} {count}" for reason, count in sorted(snapshot.refused.items()))
    line = f"{snapshot.messages} messages  {snapshot.plans_refused} plans refused"
    return printable(line + (f"  turned away: {refused}" if refused else ""))


def _hidden(snapshot: Snapshot, shown: tuple[LinkLoad, ...]) -> list[Text]:
    hidden = len(snapshot.links) - len(shown)
    return [Text(f"and {hidden} links with less on them")] if hidden else []
