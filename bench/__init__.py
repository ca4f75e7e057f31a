"""Measurements: each module measures one thing and returns plain data; the command line prints it."""
