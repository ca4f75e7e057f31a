"""Hosts and switches under `mlcc` in C: planned.h says which file has what."""
