"""The control of policies with an arbiter, in C: what paceline.sim.array.arbitrated does, with flowcore's rules."""
