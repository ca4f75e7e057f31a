"""How faults are done to the daemons, jobs and hosts of a run."""
