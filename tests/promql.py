"""As much of PromQL as the alerts need, evaluated on scrapes: text as /metrics has it, with the labels of its target.

    expression   comparison { and | unless  on (labels)  comparison }
    comparison   sum [ == | > | < number ]                keeps the series for which it holds, as PromQL does
    sum          term { + | - term }
    term         number, selector, time(), FUNCTION(selector[5m]), FUNCTION by (labels) (expression), quantiles

A series is its labels without a name. What is not understood raises, so that no alert is passed over.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Windows = dict[Labels, list[tuple[float, float]]]  # times and values
STALE_S = 300.0
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_TOKEN = re.compile(r'\s*(\[\w+\]|[\w:.]+|"[^"]*"|=~|!=|==|>=|<=|[(){},=<>+-])')


class Scrape(NamedTuple):
    time_s: float
    labels: Mapping[str, str]  # of the target: job, instance
    text: str


class Series:
    """Every sample of some scrapes; `at` evaluates an expression at a time."""

    def __init__(self, scrapes: Iterable[Scrape]) -> None:
        self._samples: dict[tuple[str, Labels], list[tuple[float, float]]] = {}
        for scrape in sorted(scrapes, key=lambda one: one.time_s):
            self._add("up", dict(scrape.labels), scrape.time_s, float(bool(scrape.text)))
            for family in text_string_to_metric_families(scrape.text):
                for sample in family.samples:  # honor_labels: what the target says comes first
                    self._add(sample.name, {**scrape.labels, **sample.labels}, scrape.time_s, sample.value)

    def at(self, expression: str, time_s: float) -> Vector:
        found = _Parser(expression, self, time_s).whole()
        assert isinstance(found, dict), expression
        return found

    def window(self, name: str, holds: Callable[[Mapping[str, str]], bool], since_s: float, until_s: float) -> Windows:
        return {
            labels: inside
            for (known, labels), samples in self._samples.items()
            if known == name and holds(dict(labels))
            if (inside := [sample for sample in samples if since_s < sample[0] <= until_s])
        }

    def _add(self, name: str, labels: Mapping[str, str], time_s: float, value: float) -> None:
        self._samples.setdefault((name, frozenset(labels.items())), []).append((time_s, value))


def duration_s(text: str) -> float:
    return float(text[:-1]) * UNITS_S[text[-1]]


def firing(rules: Iterable[Mapping[str, object]], scrapes: Iterable[Scrape], step_s: float) -> set[str]:
    """The alerts that fire at the last scrape: what they ask for has held for as long as they say."""
    every = list(scrapes)
    series, end_s = Series(every), max(scrape.time_s for scrape in every)
    found = set()
    for rule in rules:
        steps = round(duration_s(str(rule.get("for", "0s"))) / step_s)
        held = [set(series.at(str(rule["expr"]), end_s - step * step_s)) for step in range(steps + 1)]
        if set.intersection(*held):
            found.add(str(rule["alert"]))
    return found


class _Parser:
    def __init__(self, text: str, series: Series, time_s: float) -> None:
        self._tokens, self._at, self._series, self._time_s = _tokens(text), 0, series, time_s

    def whole(self) -> Vector | float:
        found = self._joined()
        assert self._at == len(self._tokens), self._tokens[self._at :]
        return found

    def _joined(self) -> Vector | float:
        left = self._compared()
        while self._peek() in ("and", "unless"):
            keeps = self._take() == "and"
            assert self._take() == "on"
            names = self._names()
            right = _vector(self._compared())
            there = {_only(labels, names) for labels in right}
            left = {
                labels: value for labels, value in _vector(left).items() if (_only(labels, names) in there) is keeps
            }
        return left

    def _compared(self) -> Vector | float:
        left = self._added()
        if (sign := self._peek()) not in ("==", ">", "<"):
            return left
        self._take()
        limit = self._added()
        assert isinstance(limit, float)
        holds = {"==": operator.eq, ">": operator.gt, "<": operator.lt}[str(sign)]
        return {labels: value for labels, value in _vector(left).items() if holds(value, limit)}

    def _added(self) -> Vector | float:
        left = self._term()
        while self._peek() in ("+", "-"):
            factor = 1.0 if self._take() == "+" else -1.0
            right = self._term()
            if isinstance(right, float):
                left = {labels: value + factor * right for labels, value in _vector(left).items()}
            else:
                mine = _vector(left)
                left = {labels: mine[labels] + factor * right[labels] for labels in mine.keys() & right.keys()}
        return left

    def _term(self) -> Vector | float:
        token = self._take()
        if token == "(":
            found = self._joined()
            assert self._take() == ")"
            return found
        if re.fullmatch(r"[0-9.]+", token):
            return float(token)
        if self._peek() == "by":
            self._take()
            names = self._names()
            return self._grouped(token, names, _vector(self._term()))
        if self._peek() == "(":
            return self._called(token)
        samples = self._window(token, STALE_S)
        return {labels: inside[-1][1] for labels, inside in samples.items()}

    def _grouped(self, how: str, names: set[str], vector: Vector) -> Vector:
        groups: dict[Labels, list[float]] = {}
        for labels, value in vector.items():
            groups.setdefault(_only(labels, names), []).append(value)
        return {labels: {"sum": sum, "min": min, "max": max}[how](values) for labels, values in groups.items()}

    def _called(self, name: str) -> Vector | float:
        assert self._take() == "("
        if name == "time":
            found: Vector | float = self._time_s
        elif name == "histogram_quantile":
            quantile = float(self._take())
            assert self._take() == ","
            found = _quantiles(quantile, _vector(self._joined()))
        else:
            selector = self._take()
            ahead = next(token for token in self._tokens[self._at :] if token.startswith("["))
            length_s = duration_s(ahead[1:-1])
            windows = self._window(selector, length_s)
            assert self._take() == ahead
            function = {"increase": _increase, "rate": lambda w: _increase(w) / length_s, "changes": _changes,
                        "avg_over_time": lambda w: sum(value for _, value in w) / len(w)}[name]  # fmt: skip
            found = {labels: function(inside) for labels, inside in windows.items()}
        assert self._take() == ")"
        return found

    def _window(self, name: str, length_s: float) -> Windows:
        rules: list[tuple[str, str, str]] = []
        if self._peek() == "{":
            self._take()
            while self._peek() != "}":
                rules.append((self._take(), self._take(), self._take()[1:-1]))
                if self._peek() == ",":
                    self._take()
            self._take()

        def holds(labels: Mapping[str, str]) -> bool:
            return all(
                labels.get(key, "") == value if sign == "=" else bool(re.fullmatch(value, labels.get(key, "")))
                for key, sign, value in rules
            )

        assert all(sign in ("=", "=~") for _, sign, _ in rules)
        return self._series.window(name, holds, self._time_s - length_s, self._time_s)

    def _names(self) -> set[str]:
        assert self._take() == "("
        names = set()
        while (token := self._take()) != ")":
            names |= {token} - {","}
        return names

    def _peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    text = text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None, text[at:]
        found.append(match[1])
        at = match.end()
    return found


def _vector(found: Vector | float) -> Vector:
    assert isinstance(found, dict)
    return found


def _only(labels: Labels, names: set[str]) -> Labels:
    return frozenset((key, value) for key, value in labels if key in names)


def _increase(window: list[tuple[float, float]]) -> float:
    """Without extrapolation: a little less than Prometheus says. A counter that fell began anew."""
    values = [value for _, value in window]
    return sum(now - before if now >= before else now for before, now in pairwise(values))


def _changes(window: list[tuple[float, float]]) -> float:
    values = [value for _, value in window]
    return float(sum(now != before for before, now in pairwise(values)))


def _quantiles(quantile: float, buckets: Vector) -> Vector:
    """The upper end of the bucket that it lies in."""
    groups: dict[Labels, list[tuple[float, float]]] = {}
    for labels, count in buckets.items():
        end = float(dict(labels)["le"].replace("+Inf", "inf"))
        groups.setdefault(frozenset(pair for pair in labels if pair[0] != "le"), []).append((end, count))
    found: Vector = {}
    for labels, ends in groups.items():
        total = max(count for _, count in ends)
        if total > 0 and not math.isnan(total):
            found[labels] = min(end for end, count in ends if count >= quantile * total)
    return found
