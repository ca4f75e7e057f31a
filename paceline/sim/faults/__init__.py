"""Fault histories: the real host and switch agents among cut streams, stalls, crashes, stepped clocks, and liars."""
