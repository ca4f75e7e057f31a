"""Another topology while hostd runs: what cannot change, and what follows for the jobs that are paced.

Hosts and racks come and go around this one. Its own cables are what its agent was built with, and a host that a job
sends to has to stay: the job's flows would lead nowhere.
"""

import logging
from collections.abc import Mapping

from hostd.monitor.job_tracker import JobTracker
from paceline.flowcore.host.agent import HostAgent
from paceline.flowcore.model.topology import Topology

_log = logging.getLogger(__name__)


def why_not(before: Topology, fresh: Topology, host: str, jobs: Mapping[str, JobTracker]) -> str:
    """Why this host cannot go over to another topology as it runs; empty: it can."""
    if fresh.nics(host) != before.nics(host):
        return "the cables of this host cannot change while hostd runs; restart it"
    for name, job in jobs.items():
        sending = {ends for ends, sockets in job.sockets.sending.items() if sockets}
        for _, target in sending | job.demand.sizes.keys():  # it may have no sockets
            if not fresh.has(target):
                return f"{target} is not in the topology any more, and job {name} sends to it"
    return ""


def rewire(agent: HostAgent, topology: Topology) -> set[str]:
    """Paths from now on; returns the jobs that have flows with another path than before."""
    paths = [(flow, topology.path(flow.id.source, flow.id.target, str(flow.id))) for flow in agent.flows.values()]
    agent.topology = topology
    _log.info("another topology: %d hosts, %d switches", len(topology.hosts), len(topology.switches))
    return {flow.id.job for flow, path in paths if flow.path != path}
