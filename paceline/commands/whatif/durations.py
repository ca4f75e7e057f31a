"""How long ago, as people write it: 90, 90s, 15m, 12h, 7d."""

import argparse

UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
LONGEST_S = 3650 * UNITS_S["d"]


def duration_s(text: str) -> float:
    unit = text[-1:] if text[-1:] in UNITS_S else "s"
    try:
        found = float(text.removesuffix(unit)) * UNITS_S[unit]
    except ValueError:
        found = -1.0
    if not 0 < found <= LONGEST_S:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a time such as 90s, 15m, 12h or 7d")
    return found
