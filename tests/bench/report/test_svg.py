"""Figures have what they should show, and are well-formed."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.report import svg
from bench.report.parts import Bars, Layers, Lines


def drawn(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def test_every_bar_is_there_in_proportion() -> None:
    part = Bars("t", "s", ["one", "two"], {"cubic": [(2.0, 0.1), (4.0, None)], "paceline": [(1.0, 0.1), (3.0, 0.1)]})
    figure = drawn(svg.bars(part))
    bars = [rect for rect in figure.iter("rect") if rect.find("title") is not None]
    heights = [float(bar.get("height", 0)) for bar in bars]
    assert heights[1] / heights[0] == pytest.approx(0.5, abs=0.01)
    assert heights[2] / heights[0] == pytest.approx(2.0, abs=0.01)
    assert {bar.get("fill") for bar in bars} == {svg.CONTROL_COLORS["cubic"], svg.CONTROL_COLORS["paceline"]}
    assert len([line for line in figure.iter("line") if line.get("class") == "ink"]) == 3


def test_names_cannot_break_the_page() -> None:
    part = Lines("<t>", "x & y", "s", {"<script>": [(0.0, 1.0), (1.0, 2.0)]})
    assert "<script>" not in svg.lines(part)
    drawn(svg.lines(part))


def test_layers_stand_on_each_other_and_may_be_empty() -> None:
    full = drawn(svg.layers(Layers("t", "Mbit/s", [0.0, 0.1], {"a": [1.0, 2.0], "b": [2.0, 0.0]}, 4.0)))
    assert len(list(full.iter("path"))) == 2
    drawn(svg.layers(Layers("t", "Mbit/s", [], {}, 4.0)))
    drawn(svg.bars(Bars("t", "s", [], {})))
    drawn(svg.lines(Lines("t", "x", "y", {})))


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_few_and_within(low: float, span: float) -> None:
    found = svg.ticks(low, low + span)
    assert 1 <= len(found) <= 7
    assert all(low - 1e-6 * span <= tick <= low + span * (1 + 1e-6) for tick in found)
