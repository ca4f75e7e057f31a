"""What both daemons need to be operated: logs, systemd, metrics, start and stop, TLS. It decides nothing."""
