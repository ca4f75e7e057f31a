"""CASSINI (NSDI 2024) among placements: of those a scheduler would accept, the one whose jobs interleave best.

How well they do, and when each is due, is in flowcore/allocation/shifts: the simulator and the switches ask it, too.
"""
