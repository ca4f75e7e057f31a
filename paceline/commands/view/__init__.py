"""Pictures of commands: for the terminal, and as files."""
