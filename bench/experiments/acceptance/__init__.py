"""Experiments of our own, which decide whether Paceline keeps its promises."""
