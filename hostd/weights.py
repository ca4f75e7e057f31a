"""How much a job may count on this host: what its owner asks for, within what the operator allows.

    [weights] jobs       what the operator says of a job, whatever its owner asks for
    [weights] tenants    the most that jobs of a tenant may have; [weights] most of all others
    PACELINE_WEIGHT      what the owner asks for (`paceline run --weight`); 1 where nothing is said

Law: no job has more than the operator allows its tenant. By default that is 1: a job may count less than others, and
none counts more.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hostd.monitor.users import Users
from paceline.flowcore.model.job_names import tenant_of
from paceline.flowcore.model.weights import LEAST


@dataclass(frozen=True, slots=True)
class WeightLimits:
    most: float = 1.0
    tenants: Mapping[str, float] = field(default_factory=dict)  # by tenant, or by its user's name
    jobs: Mapping[str, float] = field(default_factory=dict)  # each a name or user/name

    def allowed(self, job: str, asked: float, users: Users) -> float:
        """What the job counts."""
        for text, weight in self.jobs.items():
            if users.means(text, job):
                return weight
        most = self.tenants.get(tenant_of(job), self.tenants.get(users.of(job), self.most))
        return min(max(asked, LEAST), most)
