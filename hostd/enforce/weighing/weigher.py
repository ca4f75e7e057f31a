"""A flow that stands for several beside cross traffic: its sockets get our congestion control and a weight.

    Limit.stands_for ──▶ original control into the undo log ──▶ TCP_CONGESTION = ours, weight in the socket's storage

A socket keeps the control while its flow takes turns beside cross traffic. Its weight stays for the next turn, which
mostly has the same, and is 1, that is CUBIC, after a second at most. GIVEN_BACK_S after the last turn it has its own
control again. Each socket of a flow has the flow's weight: were all of ours to send at once, each flow would have as
many sockets as it has now.

Law: a socket whose flow never stood for several is not touched, nor one that has another control of hostd's, because it
loses packets (socket_options.py), as long as it has that. Should hostd die, its guardian gives the controls back;
until then sockets go on with the weights they had.
"""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hostd.congestion.libbpf import BpfError
from hostd.congestion.weighted import NAME, Weighted, packed, why_not
from hostd.enforce.errors import EnforcementError, ErrorKind, about, not_restored
from hostd.enforce.probe import Finding
from hostd.enforce.socket_options import option_key
from hostd.enforce.transport import TCP_CONGESTION
from hostd.kernel.calls import PATIENT_S, perform
from hostd.kernel.pidfd import SocketGone
from hostd.kernel.sockets import DataSocket
from hostd.safety.undo import OPTION_BYTES, SocketUndo
from hostd.safety.undo_log import UndoLog
from paceline.flowcore.messages.events import FLOOR_BPS, Limit
from paceline.flowcore.model.patterns import FlowId

GIVEN_BACK_S = 10.0
ONE = 1.0
PROBED = "weights of sockets"


@dataclass(slots=True)
class _Flow:
    sockets: tuple[DataSocket, ...] = ()
    stands_for: float = ONE
    stood_s: float = 0.0  # when it last stood for several
    told: dict[DataSocket, float] = field(default_factory=dict)  # of those with our control, the weight they have


def probe_weights() -> Finding:
    """Changes nothing: the program is loaded, and not registered."""
    if reason := why_not():
        return Finding(PROBED, False, reason, "without it jobs take no turns beside other traffic")
    return Finding(PROBED, True, "a flow can stand for several beside other traffic")


class Unweighed:
    """Where no socket can count for several."""

    def __init__(self, why: str) -> None:
        self.why = why

    def attach(self, flow: FlowId, sockets: Sequence[DataSocket]) -> list[EnforcementError]:
        return []

    def detach(self, flow: FlowId) -> list[EnforcementError]:
        return []

    def apply(self, limits: Sequence[Limit]) -> list[EnforcementError]:
        return []

    def refresh(self) -> list[EnforcementError]:
        return []

    def close(self) -> None:
        pass


class Weigher:
    why = ""

    def __init__(self, undo_log: UndoLog) -> None:
        """Raises BpfError where the kernel cannot have the control."""
        self._undo_log = undo_log
        self._control = _registered()
        self._where = (os.getpid(), self._control.weights_fd, time.monotonic_ns())
        self._flows: dict[FlowId, _Flow] = {}
        self._originals: dict[int, str] = {}  # by cookie, the control that a socket with ours had, as in the undo log

    def attach(self, flow: FlowId, sockets: Sequence[DataSocket]) -> list[EnforcementError]:
        state = self._flows.setdefault(flow, _Flow())
        left = [one for one in state.told if one not in sockets]
        state.sockets = tuple(sockets)
        return about(flow, self._weigh([state]) + self._give_back(state, left))

    def detach(self, flow: FlowId) -> list[EnforcementError]:
        state = self._flows.pop(flow, None)
        return [] if state is None else about(flow, self._give_back(state, list(state.told)))

    def apply(self, limits: Sequence[Limit]) -> list[EnforcementError]:
        sending = []
        for limit in limits:
            state = self._flows.get(limit.flow) or self._flows.setdefault(limit.flow, _Flow())
            if state.stands_for != limit.stands_for:
                state.stands_for, state.stood_s = limit.stands_for, time.monotonic()
            if limit.rate_bps > FLOOR_BPS:  # its turn; else refresh() tells it
                sending.append(state)
        return self._weigh(sending) if sending else []

    def refresh(self) -> list[EnforcementError]:
        """What was refused before is tried again, and who takes no such turns any more has its control again."""
        errors = self._weigh(self._flows.values())
        for flow, state in self._flows.items():
            if state.told and state.stands_for == ONE and time.monotonic() - state.stood_s > GIVEN_BACK_S:
                errors += about(flow, self._give_back(state, list(state.told)))
        return errors

    def close(self) -> None:
        """Sockets have their own controls again by then: those are in the undo log."""
        self._control.close()

    def _weigh(self, flows: Iterable[_Flow]) -> list[EnforcementError]:
        """Those of their sockets that have another weight than their flow, where it ever was more than one."""
        of_socket = {one: state for state in flows for one in state.sockets}
        fresh = {
            one: state
            for one, state in of_socket.items()
            if one not in state.told
            and (one.cookie in self._originals or (state.stands_for != ONE and not self._undo_log.has(_key(one))))
        }
        errors = self._record(fresh)
        calls = {
            one: (
                *("weigh", one.pid, one.fd, one.cookie),
                b"" if state.stands_for == ONE else self._control.name.encode(),
                packed(state.stands_for),
                self._where,
            )
            for one, state in of_socket.items()
            if state.told.get(one, state.stands_for) != state.stands_for
        }
        for one, answer in zip(calls, perform(list(calls.values()), PATIENT_S), strict=True):
            if isinstance(answer, (SocketGone, OSError)):
                errors.append(EnforcementError.of(answer))
            else:
                state = of_socket[one]
                state.told[one] = state.stands_for
        return errors

    def _record(self, fresh: Mapping[DataSocket, _Flow]) -> list[EnforcementError]:
        """The controls that these sockets have by themselves."""
        if not fresh:
            return []
        calls = [("get", one.pid, one.fd, one.cookie, *TCP_CONGESTION, OPTION_BYTES) for one in fresh]
        errors: list[EnforcementError] = []
        undos: dict[DataSocket, SocketUndo] = {}
        for one, found in zip(fresh, perform(calls, PATIENT_S), strict=True):
            if isinstance(found, (SocketGone, OSError)):
                errors.append(EnforcementError.of(found))
            else:  # it may have ours already, through another descriptor
                value = self._originals.get(one.cookie, found.hex())
                undos[one] = SocketUndo(one.pid, one.fd, one.cookie, *TCP_CONGESTION, value)
        try:
            self._undo_log.record({_key(one): undo for one, undo in undos.items()})
        except OSError as error:
            return [*errors, EnforcementError(ErrorKind.LEASE, f"cannot write the undo log: {error}")]
        for one, undo in undos.items():
            told = fresh[one].told
            told[one] = next((known for other, known in told.items() if other.cookie == one.cookie), ONE)
            self._originals[one.cookie] = undo.value
        return errors

    def _give_back(self, state: _Flow, sockets: Sequence[DataSocket]) -> list[EnforcementError]:
        """Those that have it through another descriptor as well keep it."""
        for one in sockets:
            del state.told[one]
        kept = {one.cookie for one in state.told}
        for one in sockets:
            if one.cookie not in kept:
                self._originals.pop(one.cookie, None)
        self._undo_log.forget([_key(one) for one in sockets if one.cookie in kept])
        return not_restored(self._undo_log.take_back([_key(one) for one in sockets if one.cookie not in kept]))


def _registered() -> Weighted:
    """By its name; where another hostd on this kernel has that, by one with our pid in it."""
    try:
        return Weighted()
    except BpfError:
        return Weighted(f"{NAME}{os.getpid():x}"[:15])


def _key(one: DataSocket) -> str:
    """The same as of who else changes its control: then the first of them has put the original on record."""
    return option_key(SocketUndo(one.pid, one.fd, one.cookie, *TCP_CONGESTION, ""))
