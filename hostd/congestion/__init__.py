"""Congestion controls of our own, as BPF programs of the kernel."""
