"""Users, tenants and the jobs that a person means.

    kernel ── uid ──▶ tenant ──▶ "1000/bert"      what hosts and switches call a job (flowcore/model/job_names.py)
                                 bert             what people call it, or alice/bert where another user has a bert, too

Law: a tenant is told from a uid alone, and never from what the job says; the same uid is the same tenant on every host
that has the same map. Names of users come from /etc/passwd: a look-up over the network may take any time.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from paceline.flowcore.model.job_names import job_of, name_of, tenant_of
from paceline.flowcore.model.patterns import FlowId

PASSWD = Path("/etc/passwd")


class Users:
    """`tenants`: by uid, where an operator has mapped it."""

    def __init__(self, tenants: Mapping[int, str] | None = None) -> None:
        self._tenants = dict(tenants or {})
        self._names: dict[str, str] = {}  # by uid
        self._changed_ns = 0
        self.read()

    def read(self) -> None:
        """If it is another file by now."""
        with suppress(OSError):
            if (changed_ns := PASSWD.stat().st_mtime_ns) != self._changed_ns:
                fields = [line.split(":") for line in PASSWD.read_text(errors="replace").splitlines()]
                self._names = {one[2]: one[0] for one in reversed(fields) if len(one) > 2 and one[0].isprintable()}
                self._changed_ns = changed_ns

    def tenant(self, uid: int) -> str:
        return self._tenants.get(uid) or str(uid)

    def job(self, uid: int, name: str) -> str:
        return job_of(self.tenant(uid), name)

    def of(self, job: str) -> str:
        """The job's user, by name if that is known."""
        tenant = tenant_of(job)
        return self._names.get(tenant, tenant)

    def means(self, text: str, job: str) -> bool:
        """Whether a person may call the job so."""
        return text in (name_of(job), job, f"{self.of(job)}/{name_of(job)}")


class JobNames:
    """What the jobs of this host are called, as they are at one moment."""

    def __init__(self, jobs: Iterable[str], users: Users) -> None:
        self._jobs, self._users = list(jobs), users
        names = Counter(map(name_of, self._jobs))
        self._several = {name for name, count in names.items() if count > 1}

    def shown(self, job: str) -> str:
        name = name_of(job)
        return f"{self._users.of(job)}/{name}" if name in self._several else name

    def shown_flow(self, flow: FlowId) -> str:
        return str(flow._replace(job=self.shown(flow.job)))

    def meant(self, text: str) -> list[str]:
        """The jobs that a person may call so: several where several users have one of that name."""
        return [job for job in self._jobs if self._users.means(text, job)]

    def every(self) -> str:
        return ", ".join(sorted(map(self.shown, self._jobs))) or "none"
