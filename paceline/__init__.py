"""The `paceline` command: everything a person types; decisions live in flowcore."""

__version__ = "0.1.0"
