"""What a host tells its switch of itself, about once a second: for people who ask the switch about the cluster.

It decides nothing. A host sends it only to a switch whose Welcome takes it, so that older switches see no message they
do not know; a switch keeps a host's last one as long as its stream is open, and tells it to watchers that ask.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from paceline.wire import control_pb2 as pb
from paceline.wire.calls import MAX_MESSAGE_BYTES
from paceline.wire.codec import BadMessage

MAX_BYTES = 16_384
MAX_TOLD_BYTES = MAX_MESSAGE_BYTES // 2  # of all hosts, in one snapshot
MOST_JOBS, MOST_TROUBLES, MOST_WHYS, MOST_CHARS = 32, 8, 3, 160


@dataclass(frozen=True, slots=True)
class JobState:
    name: str  # with its tenant: "1000/bert"
    phase: str
    paced: bool
    iteration: int = 0
    iteration_ms: float | None = None
    slowdown: float | None = None
    why: tuple[str, ...] = ()  # it is not paced, or not all of it


@dataclass(frozen=True, slots=True)
class HostState:
    mode: str
    backend: str
    version: str
    enforcing: bool
    missed_slots: int = 0
    jobs: tuple[JobState, ...] = ()
    job_count: int = 0  # with those that were one too many
    troubles: Mapping[str, int] = field(default_factory=dict)


def to_wire(state: HostState) -> pb.HostState:
    """Cut where it is too long: the host's own status has all of it."""
    return pb.HostState(
        mode=state.mode,
        backend=state.backend,
        version=state.version,
        enforcing=state.enforcing,
        missed_slots=state.missed_slots,
        job_count=state.job_count,
        job=[
            pb.HostState.Job(
                name=job.name,
                phase=job.phase,
                paced=job.paced,
                iteration=job.iteration,
                iteration_ms=job.iteration_ms or 0.0,
                slowdown=job.slowdown or 0.0,
                why=[text[:MOST_CHARS] for text in job.why[:MOST_WHYS]],
            )
            for job in state.jobs[:MOST_JOBS]
        ],
        trouble={text[:MOST_CHARS]: count for text, count in list(state.troubles.items())[:MOST_TROUBLES]},
    )


def from_wire(wire: pb.HostState) -> HostState:
    return HostState(
        wire.mode,
        wire.backend,
        wire.version,
        wire.enforcing,
        wire.missed_slots,
        tuple(
            JobState(
                job.name,
                job.phase,
                job.paced,
                job.iteration,
                job.iteration_ms or None,
                job.slowdown or None,
                tuple(job.why),
            )
            for job in wire.job
        ),
        wire.job_count,
        dict(wire.trouble),
    )


def require_small(wire: pb.HostState) -> None:
    """A switch keeps one for each host, and sends all of them to watchers."""
    if wire.ByteSize() > MAX_BYTES:
        raise BadMessage("size", f"a host's state has {wire.ByteSize()} bytes, expected at most {MAX_BYTES}")


def as_many_as_fit(states: Iterable[pb.HostState]) -> Iterator[pb.HostState]:
    """Into one snapshot."""
    left_bytes = MAX_TOLD_BYTES
    for state in states:
        left_bytes -= state.ByteSize()
        if left_bytes < 0:
            return
        yield state
