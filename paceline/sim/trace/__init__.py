"""Traces of whole clusters: jobs arrive, wait for GPUs, train, and leave."""
