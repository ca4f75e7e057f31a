"""CASSINI (NSDI 2024): jobs whose communication phases fit between each other share a link without meeting.

profile → circle → rotation (one link) → affinity (all links) → ranking (which placement); drift keeps it so.
"""
