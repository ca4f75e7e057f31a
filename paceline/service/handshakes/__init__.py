"""Handshakes between daemons: whether a certificate will do, and why one did not."""
