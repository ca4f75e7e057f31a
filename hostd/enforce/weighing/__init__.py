"""Sockets that count for several beside cross traffic."""
