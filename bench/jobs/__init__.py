"""Real jobs on the testbed: what is run under which control, and what came of it."""
