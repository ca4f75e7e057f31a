"""Figures as SVG text for an HTML page: nothing to install, nothing to fetch, sharp at any size.

Ink is `currentColor`, so figures follow the page between light and dark. A control has the same colour everywhere.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from bench.report.parts import Bars, Layers, Lines
from paceline.sim.report.figure import COLORS

WIDTH, HEIGHT, STRIP_HEIGHT = 760, 280, 150
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 30, 40
TICKS = 5
WIDE_ENOUGH = 28.0  # for a bar to have its value above it
FEW_POINTS = 20  # are marked
LEGEND_LETTER, LEGEND_GAP = 6.6, 30.0  # width of a letter; of what stands between two names

CONTROL_COLORS = {
    "reno": "#56B4E9",
    "cubic": "#009E73",
    "bbr": "#E69F00",
    "mlcc": "#CC79A7",
    "paceline": "#0072B2",
    "others": "#BBBBBB",
}


class Frame:
    """Axes of one figure: scales, a grid, and what has been drawn."""

    def __init__(self, height: int, x: tuple[float, float], y: tuple[float, float]) -> None:
        self.height, self._x, self._y = height, x, y
        self.drawn: list[str] = []

    def x(self, value: float) -> float:
        return LEFT + (value - self._x[0]) / (self._x[1] - self._x[0]) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        low, high = self._y
        part = (min(max(value, low), high) - low) / (high - low)
        return self.height - BOTTOM - part * (self.height - TOP - BOTTOM)

    def grid(self, unit: str) -> None:
        for tick in ticks(*self._y):
            at = self.y(tick)
            self.drawn.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
            self.text(LEFT - 6, at + 4, f"{tick:g}", "end")
        self.text(4, TOP - 12, unit, "start")

    def x_ticks(self, label: str) -> None:
        for tick in ticks(*self._x):
            self.text(self.x(tick), self.height - BOTTOM + 16, f"{tick:g}", "middle")
        self.text(WIDTH - RIGHT, self.height - 6, label, "end")

    def text(self, x: float, y: float, what: str, anchor: str) -> None:
        self.drawn.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(what)}</text>')

    def level(self, value: float) -> None:
        at = self.y(value)
        self.drawn.append(f'<line class="level" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')

    def legend(self, colors: Mapping[str, str]) -> None:
        x = WIDTH - RIGHT - sum(LEGEND_GAP + LEGEND_LETTER * len(name) for name in colors)
        for name, color in colors.items():
            self.drawn.append(f'<rect x="{x:.1f}" y="{TOP - 22}" width="10" height="10" fill="{color}"/>')
            self.text(x + 14, TOP - 13, name, "start")
            x += LEGEND_GAP + LEGEND_LETTER * len(name)

    def svg(self, title: str) -> str:
        opening = f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img" aria-label="{escape(title, quote=True)}">'
        return "\n".join((opening, *self.drawn, "</svg>"))


def bars(part: Bars) -> str:
    every = [spread for spreads in part.series.values() for spread in spreads]
    tops = [mean + (half or 0.0) for mean, half in every] + ([part.line] if part.line is not None else [])
    frame = Frame(HEIGHT, (0, len(part.groups)), (part.floor, ceiling(part.floor, max(tops, default=1.0))))
    frame.grid(part.unit)
    colors = colors_of(part.series)
    wide = 0.8 / max(1, len(part.series))
    for group, label in enumerate(part.groups):
        frame.text(frame.x(group + 0.5), HEIGHT - BOTTOM + 18, label, "middle")
        for place, (name, spreads) in enumerate(part.series.items()):
            mean, half = spreads[group]
            left, right = frame.x(group + 0.1 + place * wide), frame.x(group + 0.1 + (place + 0.9) * wide)
            top, foot = frame.y(mean), frame.y(part.floor)
            said = f"{name}, {label}: {mean:.4g}" + (f" ± {half:.2g}" if half is not None else "")
            frame.drawn.append(
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{foot - top:.1f}" '
                f'fill="{colors[name]}"><title>{escape(said)}</title></rect>'
            )
            if right - left >= WIDE_ENOUGH:
                frame.text((left + right) / 2, frame.y(mean + (half or 0.0)) - 4, f"{mean:.3g}", "middle")
            if half is not None:
                middle = (left + right) / 2
                ends = f'y1="{frame.y(mean - half):.1f}" y2="{frame.y(mean + half):.1f}"'
                frame.drawn.append(f'<line class="ink" x1="{middle:.1f}" x2="{middle:.1f}" {ends}/>')
    if part.line is not None:
        frame.level(part.line)
    frame.legend(colors)
    return frame.svg(part.title)


def lines(part: Lines) -> str:
    points = [point for series in part.series.values() for point in series] or [(0.0, 0.0)]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    frame = Frame(HEIGHT, (min(0.0, *xs), max(*xs, 1e-9)), (0.0, ceiling(0.0, max(ys))))
    frame.grid(part.y)
    frame.x_ticks(part.x)
    colors = colors_of(part.series)
    for name, series in part.series.items():
        places = [(frame.x(x), frame.y(y)) for x, y in series]
        way = [f"H{x:.1f}V{y:.1f}" if part.steps else f"L{x:.1f} {y:.1f}" for x, y in places[1:]]
        start = f"M{places[0][0]:.1f} {places[0][1]:.1f}" if places else ""
        frame.drawn.append(f'<path class="line" stroke="{colors[name]}" d="{start}{"".join(way)}"/>')
        if len(places) <= FEW_POINTS and not part.steps:
            frame.drawn += (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colors[name]}"/>' for x, y in places)
    frame.legend(colors)
    return frame.svg(part.title)


def layers(part: Layers) -> str:
    """Each sample holds until the next."""
    times = part.times_s or [0.0, 1.0]
    frame = Frame(STRIP_HEIGHT, (times[0], max(times[-1], times[0] + 1e-9)), (0.0, 1.15 * part.line))
    frame.grid(part.unit)
    frame.x_ticks("s")
    colors = colors_of(part.layers)
    below = [0.0] * len(part.times_s)
    for name, heights in part.layers.items():
        top = [low + height for low, height in zip(below, heights, strict=True)]
        there = "".join(f"L{frame.x(at):.1f} {frame.y(value):.1f}" for at, value in _stairs(times, top))
        back = "".join(f"L{frame.x(at):.1f} {frame.y(value):.1f}" for at, value in reversed(_stairs(times, below)))
        frame.drawn.append(f'<path fill="{colors[name]}" d="M{(there + back)[1:]}Z"/>' if there else "")
        below = top
    frame.level(part.line)
    frame.legend(colors)
    return frame.svg(part.title)


def _stairs(times: Sequence[float], values: Sequence[float]) -> list[tuple[float, float]]:
    ends = [*times[1:], times[-1]]
    return [point for at, end, value in zip(times, ends, values, strict=False) for point in ((at, value), (end, value))]


def colors_of(names: Iterable[str]) -> dict[str, str]:
    """A control's own colour; others in turn."""
    free = iter(COLORS * 4)
    return {name: CONTROL_COLORS.get(name) or next(free) for name in names}


def ticks(low: float, high: float) -> list[float]:
    """Round numbers between the two, about TICKS of them."""
    rough = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 10) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def ceiling(floor: float, highest: float) -> float:
    """A little above the highest value."""
    return floor + 1.08 * max(highest - floor, 1e-3)
