"""Backends that act through the shim in the job: what they decide is on the pages of its processes."""
