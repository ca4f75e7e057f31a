"""Which processes a scenario needs on which host, and with which arguments and environment."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.jobs.daemons import registration_socket
from bench.jobs.shared_cluster import SharedCluster
from bench.testbed.accelerator import gpu
from bench.testbed.addresses import Addresses
from bench.testbed.network import DATA_IFNAME
from bench.workload.assignment import FIRST_PORT, PORTS_PER_JOB, Assignment
from bench.workload.choice import ON_GPU, RINGS, Program, program_for
from nccl_shim import build
from nccl_shim.launcher import observed_environment
from nccl_shim.segment.clibrary import library_path
from nccl_shim.segment.layout import JOB_BYTES
from nccl_shim.throttle import ThrottleRefused, throttle_environment
from paceline.failure import Failure
from paceline.flowcore.model.scenario import CrossTraffic, JobSpec, Scenario
from paceline.flowcore.model.units import bps_from_gbps

CROSS_TRAFFIC = "bench.workload.cross_traffic"
NEW_CONNECTIONS = "bench.workload.new_connections"
_ROOT = Path(__file__).parents[2]
_RENDEZVOUS_PORT = 9  # the last of a job's ports
# Variables of the caller that would give a job another identity or another plugin.
_FOREIGN = ("PACELINE_", "NCCL_", "SLURM_", "OMPI_", "PMI_", "TORCHELASTIC_", "RANK", "WORLD_SIZE", "LOCAL_RANK")


# Ranks of one GPU take the emulated network only if they seem to be on hosts of their own.
_NCCL_ENVIRONMENT = {
    "NCCL_SOCKET_IFNAME": f"={DATA_IFNAME}",
    "NCCL_NET": "Socket",
    "NCCL_P2P_DISABLE": "1",
    "NCCL_SHM_DISABLE": "1",
    "NCCL_IB_DISABLE": "1",
}


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process of a run."""

    name: str
    job: str | None  # None: cross traffic
    host: str
    prints_numbers: bool  # the ends of its iterations; cross traffic: bytes
    start_s: float
    module: str  # whose main(*arguments) it runs
    arguments: tuple[str, ...]
    env: Mapping[str, str]


def modules_for(scenario: Scenario, workload: str) -> list[str]:
    """Of all processes of a run of the scenario."""
    modules = [program_for(job, workload).module for job in scenario.jobs]
    return list(dict.fromkeys([*modules, *([CROSS_TRAFFIC] if scenario.cross_traffic else [])]))


def fork_server_environment() -> dict[str, str]:
    """With the shim's hooks, which act on import; its job a process learns when it is forked."""
    env = _environment() | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return env | observed_environment(env, (), "", job="fork-server")


def process_specs(
    scenario: Scenario,
    seed: int,
    workload: str,
    addresses: Addresses,
    directory: Path,
    registered: bool = False,
) -> list[ProcessSpec]:
    """`registered`: counters are handed to the host's hostd; otherwise, or where none listens, they are files. Raises
    Failure where jobs over NCCL would have no plugin: nothing would count what they send."""
    programs = [program_for(job, workload) for job in scenario.jobs]
    if any(program in ON_GPU.values() for program in programs):
        try:
            _build_libraries()
        except (build.NoCompiler, OSError) as error:
            raise Failure(f"jobs over NCCL need the shim's library, which cannot be built: {error}") from error
    specs = [
        spec
        for number, (job, program) in enumerate(zip(scenario.jobs, programs, strict=True))
        for spec in job_processes(job, number, seed, program, addresses, directory, registered)
    ]
    for number, bursts in enumerate(scenario.cross_traffic):
        port = FIRST_PORT + PORTS_PER_JOB * (len(scenario.jobs) + number)
        specs += _of_cross_traffic(bursts, number, seed, str(addresses.data[bursts.target]), str(port))
    return specs


def job_processes(
    job: JobSpec,
    number: int,
    seed: int,
    program: Program,
    addresses: Addresses,
    directory: Path,
    registered: bool,
) -> Iterator[ProcessSpec]:
    data = {host: str(address) for host, address in addresses.data.items()}
    store = str(addresses.control[job.workers[0]].ip)  # torch's rendezvous is no training: off the emulated links
    places = [(host, False) for host in job.workers] + [(host, True) for host in job.servers]
    for host, serves in places:
        own = Assignment(job, number, seed, host, serves, data)
        role = "server" if serves else "worker"
        env = _environment() | {
            "RANK": str(_rank(own, program)),
            "WORLD_SIZE": str(own.world_size),
            "MASTER_ADDR": store,
            "MASTER_PORT": str(own.port + _RENDEZVOUS_PORT),
            "GLOO_SOCKET_IFNAME": DATA_IFNAME,
            "TP_SOCKET_IFNAME": DATA_IFNAME,
            "OMP_NUM_THREADS": "1",
        }
        if program in ON_GPU.values():
            log = directory / host / "nccl.%p.log"
            env |= _NCCL_ENVIRONMENT | {"NCCL_HOSTID": f"{number}-{host}", "NCCL_DEBUG_FILE": str(log)}
        socket = registration_socket(directory, host) if registered else None
        weight = f"{job.weight:.3f}" if job.weight != 1.0 else None
        env |= observed_environment(
            env,
            (program.module,),
            host,
            known_as(job, number),
            job.pattern.value,
            role,
            directory / host,
            socket,
            weight,
            job.iterations,
        )
        name = f"{job.name} {role} on {host}"
        arguments = (own.to_json(), *program.arguments)
        yield ProcessSpec(name, job.name, host, not serves, job.start_s, program.module, arguments, env)


def throttled(specs: Sequence[ProcessSpec]) -> list[ProcessSpec]:
    """The same where NCCL sends through our net plugin; raises Failure for jobs that are not over NCCL."""
    if other := [spec.name for spec in specs if "NCCL_NET" not in spec.env]:
        raise Failure(f"{other[0]} is not over NCCL, whose net plugin the throttle is")
    try:
        return [replace(spec, env={**spec.env, **throttle_environment(spec.env)}) for spec in specs]
    except ThrottleRefused as refused:
        raise Failure(str(refused)) from refused


def known_as(job: JobSpec, number: int) -> str:
    """The job's name for hostd: the shim has no room for long names, and would see two that begin alike as one job."""
    return job.name if len(os.fsencode(job.name)) < JOB_BYTES else f"job-{number}"


def _rank(own: Assignment, program: Program) -> int:
    """A ring of the scenario sends to the next worker, gloo's to the rank before: so gloo's ranks count backwards."""
    return -own.rank % own.world_size if program in RINGS.values() else own.rank


def others_processes(shared: SharedCluster, jobs: int, seed: int, addresses: Addresses) -> list[ProcessSpec]:
    """A source and a sink on every host; `jobs` have the ports before theirs."""
    if shared.others_every_s is None:
        return []
    port = str(FIRST_PORT + PORTS_PER_JOB * jobs)
    times = (str(shared.others_every_s), *map(str, shared.others_last_s))
    specs = []
    for number, (host, address) in enumerate(addresses.data.items()):
        others = [str(other) for name, other in addresses.data.items() if name != host]
        source = ("source", port, *times, f"{seed}/others/{number}", *others)
        for role, arguments in (("to", ("sink", str(address), port)), ("from", source)):
            name = f"traffic of others {role} {host}"
            specs.append(ProcessSpec(name, None, host, role == "from", 0.0, NEW_CONNECTIONS, arguments, _environment()))
    return specs


def _of_cross_traffic(bursts: CrossTraffic, number: int, seed: int, address: str, port: str) -> Iterator[ProcessSpec]:
    times = (str(bursts.every_s), *map(str, bursts.lasts_s), str(bps_from_gbps(bursts.gbps)))
    source = ("source", address, port, *times, f"{seed}/cross/{number}")  # the simulator's draws
    sink = ("sink", address, port)
    for role, host, arguments in (("to", bursts.target, sink), ("from", bursts.source, source)):
        name = f"cross traffic {number} {role} {host}"
        yield ProcessSpec(name, None, host, arguments is source, 0.0, CROSS_TRAFFIC, arguments, _environment())


def _environment() -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    return env | {"PYTHONPATH": str(_ROOT)}


def ready_for(backend: str) -> None:
    """Jobs over this backend, with the shim's libraries, which are built if they are missing. Raises Failure where
    there is no GPU for nccl, NoCompiler or OSError where they cannot be built."""
    if backend == "nccl" and gpu() is None:
        raise Failure("torch finds no GPU with NCCL here; --backend gloo needs none")
    _build_libraries()


def _build_libraries() -> None:
    """Where they are missing; raises NoCompiler or OSError."""
    shim = library_path()
    if not shim.is_file():
        build.build(shim)
    net = shim.with_name(build.NET_LIBRARY_NAME)
    if not net.is_file():
        build.build_net(net)
