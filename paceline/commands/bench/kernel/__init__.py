"""Measurements of what the kernel makes of our limits and weights."""
