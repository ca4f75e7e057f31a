"""`paceline topology`: the file with a cluster's hosts, switches and cables, written and checked."""
