"""Hosts that tell their switch what is not so, and what that costs the jobs of the others."""
