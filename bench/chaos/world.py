"""What faults are done to: the daemons, jobs and hosts of a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import psutil

from bench.chaos.jobs import ChaosJob
from bench.chaos.plan import Fault
from bench.chaos.supervisor import Supervised
from bench.testbed.network import Testbed

GUARDIAN, WORKER = "hostd.safety.guardian", "hostd.workers.worker"


@dataclass(frozen=True)
class World:
    testbed: Testbed
    hosts: Mapping[str, Supervised]
    switches: Mapping[str, Supervised]
    jobs: Mapping[str, ChaosJob]

    def children(self, host: str, module: str) -> list[psutil.Process]:
        """Of this host's hostd: its guardian or its workers."""
        try:
            found = psutil.Process(self.hosts[host].daemon.pid).children()
            return [child for child in found if module in child.cmdline()]
        except psutil.Error:
            return []


@dataclass(frozen=True, slots=True)
class Done:
    """What a fault came to, and how to take it back when it has lasted long enough."""

    note: str = ""
    undo: Callable[[], None] | None = None


Perform = Callable[[World, Fault], Done]
