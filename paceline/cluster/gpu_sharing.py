"""GPU sharing: several jobs use a GPU in turn, as Ada-SRSF assumes (§III-B). A job keeps its place in a GPU's memory
until it ends, and a GPU computes for one job at a time.

    L_g    a GPU's load: the seconds that its jobs still need          L_S = Σ_g L_g    a server's

Law: at most `jobs_per_gpu` jobs on a GPU, and a job has each of its GPUs once. `free` counts the GPUs of a server that
have room, so placements that only count them need not know that GPUs are shared.
"""

from dataclasses import dataclass, field

from paceline.cluster.state import ClusterState, Workers

Gpu = tuple[str, int]  # server, number on it


@dataclass(slots=True)
class SharedGpuState(ClusterState):
    jobs_per_gpu: int = 1
    jobs_on: dict[Gpu, set[str]] = field(default_factory=dict)
    gpus_of: dict[str, tuple[Gpu, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ClusterState.__post_init__(self)
        self.jobs_on = {(server, number): set() for server in self.rack_of for number in range(self.gpus_per_server)}

    def copy(self) -> "SharedGpuState":
        other = ClusterState.copy(self)
        assert isinstance(other, SharedGpuState)
        other.jobs_on, other.gpus_of = {gpu: set(jobs) for gpu, jobs in self.jobs_on.items()}, dict(self.gpus_of)
        return other

    @property
    def free_gpus(self) -> int:
        return sum(self.free.values())

    def take(self, job: str, workers: Workers) -> None:
        """On each server its least loaded GPUs."""
        chosen: list[Gpu] = []
        for server, gpus in workers.items():
            if not 0 < gpus <= self.free[server]:
                raise ValueError(f"{job} wants {gpus} GPUs of {server}, of which {self.free[server]} have room")
            roomy = [gpu for gpu in self._with_room() if gpu[0] == server]
            chosen += sorted(roomy, key=self._load_s)[:gpus]
        for gpu in chosen:
            self.jobs_on[gpu].add(job)
        self.gpus_of[job] = tuple(chosen)
        self.placed[job] = workers
        self._count(workers)

    def give_back(self, job: str) -> None:
        workers = self.placed.pop(job)
        for gpu in self.gpus_of.pop(job):
            self.jobs_on[gpu].discard(job)
        self._count(workers)

    def open_gpus(self) -> list[tuple[float, str]]:
        return [(self._load_s(gpu), gpu[0]) for gpu in self._with_room()]

    def open_servers(self) -> list[str]:
        return [server for server, _ in self._with_room()]

    def server_loads_s(self) -> dict[str, float]:
        loads_s = dict.fromkeys(self.rack_of, 0.0)
        for gpu in self.jobs_on:
            loads_s[gpu[0]] += self._load_s(gpu)
        return loads_s

    def gpus_by_server(self, job: str) -> dict[str, tuple[Gpu, ...]]:
        gpus = self.gpus_of[job]
        return {server: tuple(gpu for gpu in gpus if gpu[0] == server) for server in self.placed[job]}

    def _with_room(self) -> list[Gpu]:
        return [gpu for gpu, jobs in self.jobs_on.items() if len(jobs) < self.jobs_per_gpu]

    def _load_s(self, gpu: Gpu) -> float:
        return sum(self.remaining_s.get(job, 1.0) for job in self.jobs_on[gpu])

    def _count(self, workers: Workers) -> None:
        for server in workers:
            self.free[server] = sum(gpu[0] == server for gpu in self._with_room())
        busy = [gpu for gpu, jobs in self.jobs_on.items() if jobs]
        self.used_gpus, self.used_servers = len(busy), len({server for server, _ in busy})
