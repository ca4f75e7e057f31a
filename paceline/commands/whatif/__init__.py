"""`paceline whatif`, before switching on, and `paceline report`, after: what Paceline is worth to jobs."""
