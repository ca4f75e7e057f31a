"""mcs: multi-stage coflows, the baseline of MLCC §VII.

All flows of a stage are one coflow and the shortest coflow goes first. The cluster is one big switch: only the hosts'
own links count, whatever lies between them. Stages depend by *start-after*: a server broadcasts once it has all bytes
of every worker, a ring member forwards what it has received completely.

`mcs-pipelined` is the other reading: the same coflows in the same order, and bytes go on as they arrive, as every other
policy's do. What lies between the two is what start-after costs.

Where §VII is silent, this takes what favours the baseline. "Completely" is meant per chunk of a ring
(patterns.grain_bytes): per flow, no member could send first. And the order is by what remains, not by what there was
at the start.
"""

from typing import ClassVar

from paceline.flowcore.policy.order import Srpt


class Mcs(Srpt):
    name = "mcs"
    simulated: ClassVar[bool] = True
    start_after: ClassVar[bool] = True

    def sees(self, path: tuple[str, ...]) -> tuple[str, ...]:
        return (path[0], path[-1])


class McsPipelined(Mcs):
    name = "mcs-pipelined"
    start_after: ClassVar[bool] = False
