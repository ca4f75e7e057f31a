"""What colliding costs (Ada-SRSF §III, eq. 5): an all-reduce of M bytes while k of them share a server takes

    T = a + k·b·M + (k − 1)·η·M

of which k·b·M is fair sharing and (k − 1)·η·M is lost to all. fairshare.contended_bps is the same law as the capacity
of a link; policy fair-penalty applies it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Contention:
    a_s: float = 6.69e-4  # latency, fitted on 10 Gbit/s Ethernet (Fig. 2a)
    b_s: float = 8.53e-10  # per byte
    eta_s: float = 8.53e-10 * 0.235 / 0.856  # per byte; the ratio η/b is that of the authors' simulator

    def all_reduce_s(self, size_bytes: float, tasks: int = 1) -> float:
        return self.a_s + (tasks * self.b_s + (tasks - 1) * self.eta_s) * size_bytes

    @property
    def worthwhile(self) -> float:
        """A new message smaller than this part of what is left of an old message had better start now (Theorem 2)."""
        return self.b_s / (2.0 * (self.b_s + self.eta_s))


ETHERNET_10G = Contention()
