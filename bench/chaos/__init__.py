"""Chaos: real daemons and real jobs on the testbed while faults happen, and what is left of the promises."""
