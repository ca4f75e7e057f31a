"""Whose job: a job is known by its tenant and its name, "1000/bert", in a host, on the wire and at a switch.

    tenant    the user, by number, as the kernel of the host knows it; what an operator has mapped it to; "" of a job of
              a host of the release before this one, which sends the name alone
    name      as the job says it

Law: the first "/" stands behind the tenant, whatever the name has in it: no name makes a job another user's. Pure.
"""

from collections import Counter
from collections.abc import Collection

from paceline.flowcore.model.patterns import FlowId


def job_of(tenant: str, name: str) -> str:
    return f"{tenant}/{name}"


def tenant_of(job: str) -> str:
    tenant, slash, _ = job.partition("/")
    return tenant if slash else ""


def name_of(job: str) -> str:
    tenant, slash, name = job.partition("/")
    return name if slash else tenant


def readable(jobs: Collection[str]) -> dict[str, str]:
    """The names alone, where each is one job's; tenant and name where several have it."""
    count = Counter(map(name_of, jobs))
    return {job: name_of(job) if count[name_of(job)] == 1 else job for job in jobs}


def log_fields(job: str) -> dict[str, str]:
    """Of a line about the job."""
    return {"job": name_of(job)} | ({"tenant": tenant_of(job)} if tenant_of(job) else {})


def flow_log_fields(flow: FlowId) -> dict[str, str]:
    return log_fields(flow.job) | {"flow": str(flow._replace(job=name_of(flow.job)))}
