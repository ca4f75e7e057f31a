"""When a job may communicate. A gate is asked when a job is ready to, and again whenever a communication ends:
`may_start(task, running)` over the tasks that run now; the driver asks for jobs in the order of remaining service.

A new gate is one file here and one line below.
"""

from paceline.flowcore.allocation.gates import adadual, srsf
from paceline.flowcore.allocation.gates.task import Gate, Running, Task

GATES: dict[str, Gate] = {
    "adadual": adadual.may_start,
    "srsf1": srsf.at_most(1),
    "srsf2": srsf.at_most(2),
    "srsf3": srsf.at_most(3),
}

__all__ = ["GATES", "Gate", "Running", "Task"]
