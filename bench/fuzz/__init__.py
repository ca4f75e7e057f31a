"""Fuzzing: mutants of what peers, jobs and people may hand to the daemons, by the million."""
