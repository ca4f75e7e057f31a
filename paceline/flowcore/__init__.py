"""What to do, and nothing about how: the pure decision code that the simulator and the daemons share.

No I/O, no clock, no randomness of its own: time enters as integer nanoseconds, chance as a seeded generator.
"""
