"""Commands that watch daemons: `paceline web`, `paceline trace`, `paceline status --cluster`."""
