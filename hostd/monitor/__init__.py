"""What the jobs of this host do: counters in, events out."""
