"""Mutants of good input: some bytes wrong, some values absurd, the rest as it was.

Random bytes are refused by the first check. What lies behind it is reached by input that is good but for one thing.
"""

import random
from collections.abc import Sequence

EDITS = 4  # at most, of one mutant
LONGEST_PIECE = 16
INTERESTING = tuple(
    value.to_bytes(size, "little")
    for size in (1, 2, 4, 8)
    for value in (0, 1, 2 ** (8 * size - 1) - 1, 2 ** (8 * size - 1), 2 ** (8 * size) - 1)
)


def mutant(draws: random.Random, corpus: Sequence[bytes]) -> bytes:
    data = bytearray(draws.choice(corpus))
    for _ in range(draws.randint(1, EDITS)):
        at, length = draws.randrange(len(data) + 1), draws.randint(1, LONGEST_PIECE)
        match draws.randrange(8):
            case 0:
                del data[at : at + length]
            case 1:
                data[at:at] = draws.randbytes(length)
            case 2:
                data = data[:at]
            case 3:
                data[at:at] = data[at : at + length]
            case 4:
                value = draws.choice(INTERESTING)
                data[at : at + len(value)] = value
            case 5:
                other = draws.choice(corpus)
                begin = draws.randrange(len(other) + 1)
                data[at:] = other[begin:]
            case _ if at < len(data):
                data[at] = draws.randrange(256)
    return bytes(data)


def same_length(draws: random.Random, data: bytes, places: int) -> bytes:
    """Some values of the first `places` bytes overwritten, none moved."""
    wrong = bytearray(data)
    for _ in range(draws.randint(1, EDITS)):
        value = draws.choice(INTERESTING) if draws.random() < 0.5 else draws.randbytes(draws.randint(1, 8))
        at = draws.randrange(places - len(value) + 1)
        if draws.random() < 0.7:
            at -= at % len(value)  # a whole field
        wrong[at : at + len(value)] = value
    return bytes(wrong)
