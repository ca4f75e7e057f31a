"""CASSINI's shifts (NSDI 2024): jobs whose communication phases fit between each other share a link without meeting.

profile → circle → rotation (one link) → affinity (all links) → plan → times at which bursts are due; drift keeps them.
"""
