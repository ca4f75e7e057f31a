"""AdaDUAL (Ada-SRSF, Algorithm 2): whether a communication starts beside another or waits for it.

Of two messages M_1 ≤ M_2 that arrive together the smaller goes first (Theorem 1). A message that arrives while another
has M_old left starts at once if M_new / M_old < b / (2(b + η)) and else waits (Theorem 2): slowing a long message a
little can pay, being slowed by it for long cannot. A third message never joins.

Where the servers have one task each but not the same, Algorithm 2 looks at one of them; here all must be long enough.
"""

from collections.abc import Sequence

from paceline.flowcore.allocation.gates.contention import ETHERNET_10G, Contention
from paceline.flowcore.allocation.gates.task import Running, Task, most_on_a_server


def may_start(task: Task, running: Sequence[Running], contention: Contention = ETHERNET_10G) -> bool:
    met = [other for other in running if not task.servers.isdisjoint(other.task.servers)]
    match most_on_a_server(task, met):
        case 0:
            return True
        case 1:
            shortest_bytes = min(other.remaining_bytes for other in met)
            return task.size_bytes < contention.worthwhile * shortest_bytes
        case _:
            return False
