"""The gate: a burst's launch waits while its page says so. Law: never raises, never longer than hold.py's bounds, and
after a wait that such a bound has ended the next launch does not wait: a hostd that answers late, or not at all, costs
no more than every other burst.

    gate = LaunchGate()
    announce(bytes)             # hostd sees a burst that waits, and asks its switch
    gate.wait()                 # until its turn has come, or there is no reason to wait
    launch()

Which launch begins a burst its caller knows: the first of a backward pass, of a parameter server's round. What has been
launched is not stopped, and what follows it in the same burst is not held.
"""

from __future__ import annotations

from nccl_shim.page.hold import Hold, wait
from nccl_shim.page.layout import ANY_PEER
from nccl_shim.page.reader import PageReader


class LaunchGate:
    """Of one process, whose page says the same of all peers: a collective waits for all of them."""

    def __init__(self, page: PageReader | None = None) -> None:
        self._page = page or PageReader()
        self._pass_next = False

    def wait(self) -> int:
        """Returns the ns waited."""
        try:
            if self._pass_next:
                self._pass_next = False
                return 0
            hold = Hold()
            waited_ns = wait(hold, lambda: self._page.look(ANY_PEER))
            self._pass_next = hold.spent
        except Exception:  # training goes on, whatever it was
            return 0
        return waited_ns
