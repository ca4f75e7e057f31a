"""The simulator: drives flowcore's agents over a fluid network, faster than real time."""
