"""Flows by name, as they are on the wire: "job/role/source>target", and the path that the topology gives each.

Both directions remember their results: the same flows come again in every slot.
"""

from collections.abc import Iterable
from functools import lru_cache

from paceline.flowcore.model.patterns import FlowId, Role
from paceline.flowcore.model.topology import Topology, UnknownHostError

MAX_NAME_CHARS = 300
KNOWN_FLOWS = 65_536  # names and paths remembered, about 30 MB when full


class BadMessage(ValueError):
    """What arrived is no valid message; `reason` is one word to count it by."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


class BadRows(BadMessage):
    """Some rows of a message are no valid ones; `rows` are their places, and the rest may be."""

    def __init__(self, reason: str, detail: str, rows: Iterable[int]) -> None:
        super().__init__(reason, detail)
        self.rows = frozenset(rows)


@lru_cache(KNOWN_FLOWS)
def flow_of(text: str) -> FlowId:
    job, _, rest = text[:MAX_NAME_CHARS].rpartition("/")
    job, _, role = job.rpartition("/")
    source, arrow, target = rest.partition(">")
    if not (job and arrow and source and target) or len(text) > MAX_NAME_CHARS or not text.isprintable():
        raise BadMessage("flow", f"found {text[:60]!r}, expected job/role/source>target")
    try:
        return FlowId(job, source, target, Role(role))
    except ValueError:
        raise BadMessage("flow", f"found role {role[:20]!r}, expected one of {', '.join(Role)}") from None


@lru_cache(KNOWN_FLOWS)
def text_of(flow: FlowId) -> str:
    return str(flow)


class FlowPaths:
    """The links of a flow, by the topology that both ends were given. Paths are not on the wire."""

    def __init__(self, topology: Topology) -> None:
        @lru_cache(KNOWN_FLOWS)
        def path(flow: FlowId) -> tuple[str, ...]:
            try:
                links = topology.path(flow.source, flow.target, str(flow))
            except UnknownHostError as error:
                raise BadMessage("flow", f"{flow}: {error}") from None
            if not links:
                raise BadMessage("flow", f"{flow} crosses no link")
            return links

        self.path = path
