"""MLTCP (HotNets 2024), a baseline: TCP that grows the faster, the more of its iteration it has sent."""
