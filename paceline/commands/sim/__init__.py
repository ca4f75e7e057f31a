"""`paceline sim …`: one module per command, and group.py."""
