"""A job of Ada-SRSF's model (§III): workers that compute forward and backward, and then exchange once, iteration by
iteration.

    L_J = I_left · (t_f + t_b + E) · |G|        its remaining service (eq. 7, 8), in GPU seconds; least goes first
    E   = a + b·M  if its GPUs are on several servers, else 0: what an exchange takes alone
"""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Model:
    """A line of Table III."""

    size_bytes: float  # M
    memory_mb: int  # of each of its GPUs
    forward_s: float  # t_f
    backward_s: float  # t_b


@dataclass(slots=True, eq=False)
class Eq5Job:
    number: int
    arrival_s: float
    gpus: int
    model: Model
    left: int  # iterations
    held: tuple[int, ...] = ()  # GPUs, by number; empty: it waits
    servers: tuple[int, ...] = ()  # of those, in order
    server_bits: int = 0  # the same as a set
    exchange_s: float = 0.0  # E
    computing: int = 0  # workers that are not through with this iteration's computing
    service_s: float = 0.0  # L_J
    turn: tuple[float, int] = (0.0, 0)  # least goes first; of equals the first to come
    end_s: float = inf

    def count_service(self) -> None:
        """After placement and after every iteration."""
        self.service_s = self.left * (self.model.forward_s + self.model.backward_s + self.exchange_s) * self.gpus
        self.turn = self.service_s, self.number
