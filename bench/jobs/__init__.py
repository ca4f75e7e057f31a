"""Real jobs on the testbed: which runs are made under which control, how, and the report."""
