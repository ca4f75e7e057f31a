"""What became of this host's jobs over days: a line per job and minute, for `paceline report`."""
