"""`paceline bench …`: one module per command, and group.py. The package `bench` is part of a checkout only."""
