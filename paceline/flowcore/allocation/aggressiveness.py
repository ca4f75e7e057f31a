"""MLTCP's aggressiveness: a flow counts the more, the more of its iteration it has sent (MLTCP, HotNets 2024).

    r     = min(1, bytes sent in this iteration / bytes of an iteration)
    F(r)  = slope · r + intercept

Reno's additive increase is multiplied by F. In a fluid network a flow's share of its bottleneck is then proportional to
F: weighted max-min. Of two jobs that collide the one that began first takes more and ends sooner, so it begins its next
exchange sooner, too: they drift apart until they meet no more.

F changes with every byte; a simulator takes it as constant over one of PIECES pieces of the iteration, at its middle.
"""

from typing import NamedTuple

# Mean slowdown over the five mixes of scenarios/testbed: 1.320, 1.319, 1.321 and 1.320 with 8, 16, 32 and 64 pieces.
PIECES = 16
LEAST_PIECE_BYTES = 1500.0  # a packet


class Aggressiveness(NamedTuple):
    slope: float
    intercept: float

    def weight(self, part: float) -> float:
        """F(r)."""
        return self.slope * part + self.intercept


PAPER = Aggressiveness(1.75, 0.25)
PUBLISHED_CODE = Aggressiveness(4.0, 0.25)  # its authors'


def piece_bytes(size_bytes: float) -> float:
    """Of an iteration of so many bytes."""
    return max(size_bytes / PIECES, LEAST_PIECE_BYTES)
