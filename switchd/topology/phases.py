"""When in a slot each host of a switch reports."""

from paceline.flowcore.model.topology import Topology

# Groups in which the hosts of a rack report, if they are more than a few. Each group causes frames to other switches
# and back, whose cost hardly depends on how many hosts they are about. A group reports in one instant: a frame leaves
# as soon as a message waits for it, and takes along only the messages that wait by then.
FEW_HOSTS = 3
REPORT_GROUPS = 2


def phases(topology: Topology, switch: str, length_ns: int) -> dict[str, int]:
    """When in a slot each host reports: evenly over the slot, so that no two reports meet at the switch, and the racks
    one after the other, so that their messages do not meet at the switches above either. The hosts of a large rack
    report in groups: their messages to other switches then go together. All begin a quarter of a step late: at the
    beginning and in the middle of a slot the switches divide links anew (REALLOCATIONS_PER_SLOT)."""
    racks = list(dict.fromkeys(topology.switch_of[host] for host in topology.hosts))
    own = [host for host in topology.hosts if topology.switch_of[host] == switch]
    groups = REPORT_GROUPS if len(own) > FEW_HOSTS and switch in topology.parents else len(own)
    steps = len(racks) * groups
    turns = {host: number % groups * len(racks) + racks.index(switch) for number, host in enumerate(own)}
    return {host: (4 * turn + 1) * length_ns // (4 * steps) for host, turn in turns.items()}
