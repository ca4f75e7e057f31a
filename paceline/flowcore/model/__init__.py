"""Units, slots, topologies, jobs: what is given."""
