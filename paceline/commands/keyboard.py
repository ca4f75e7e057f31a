"""Single keys, while a live view is shown: `q` leaves it, as in top and less."""

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

LEAVING = {"q", "Q", "\x04"}  # the last: Ctrl-D


@contextmanager
def keys() -> Iterator[int | None]:
    """The descriptor that keys come from, each at once and unseen; None: standard input is no terminal."""
    try:
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (OSError, ValueError, AttributeError, termios.error):
        yield None
        return
    try:
        tty.setcbreak(descriptor)
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def is_leaving(descriptor: int | None, wait_s: float) -> bool:
    """Waits so long at most; whether a key that leaves was pressed."""
    ready, _, _ = select.select([descriptor] if descriptor is not None else [], [], [], wait_s)
    return bool(ready) and leaves(descriptor)


def leaves(descriptor: int | None) -> bool:
    """What there is to read, if there is something: a terminal that has gone leaves, too."""
    if descriptor is None:
        return False
    pressed = os.read(descriptor, 64).decode(errors="replace")
    return not pressed or bool(LEAVING & {*pressed})
