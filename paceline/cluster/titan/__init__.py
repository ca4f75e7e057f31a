"""Titan (the paper's names): NIMP is the problem, the greedy solves it, partition divides workers over machines."""
