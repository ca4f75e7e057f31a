"""Processes beside hostd that make the calls on objects of jobs, and may be kept waiting by them."""
