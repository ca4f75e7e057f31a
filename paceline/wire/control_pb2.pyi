from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Hello(_message.Message):
    __slots__ = ("name", "protocol", "topology", "horizon", "slot_length_ns", "policy", "uplink")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    HORIZON_FIELD_NUMBER: _ClassVar[int]
    SLOT_LENGTH_NS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    UPLINK_FIELD_NUMBER: _ClassVar[int]
    name: str
    protocol: int
    topology: str
    horizon: int
    slot_length_ns: int
    policy: str
    uplink: _containers.RepeatedCompositeFieldContainer[Uplink]
    def __init__(self, name: _Optional[str] = ..., protocol: _Optional[int] = ..., topology: _Optional[str] = ..., horizon: _Optional[int] = ..., slot_length_ns: _Optional[int] = ..., policy: _Optional[str] = ..., uplink: _Optional[_Iterable[_Union[Uplink, _Mapping]]] = ...) -> None: ...

class Uplink(_message.Message):
    __slots__ = ("node", "parent", "capacity_bps")
    NODE_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_BPS_FIELD_NUMBER: _ClassVar[int]
    node: str
    parent: _containers.RepeatedScalarFieldContainer[str]
    capacity_bps: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, node: _Optional[str] = ..., parent: _Optional[_Iterable[str]] = ..., capacity_bps: _Optional[_Iterable[float]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("name", "protocol", "epoch_ns", "slot_length_ns", "horizon", "phase_ns", "policy", "takes_state")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    EPOCH_NS_FIELD_NUMBER: _ClassVar[int]
    SLOT_LENGTH_NS_FIELD_NUMBER: _ClassVar[int]
    HORIZON_FIELD_NUMBER: _ClassVar[int]
    PHASE_NS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    TAKES_STATE_FIELD_NUMBER: _ClassVar[int]
    name: str
    protocol: int
    epoch_ns: int
    slot_length_ns: int
    horizon: int
    phase_ns: int
    policy: str
    takes_state: bool
    def __init__(self, name: _Optional[str] = ..., protocol: _Optional[int] = ..., epoch_ns: _Optional[int] = ..., slot_length_ns: _Optional[int] = ..., horizon: _Optional[int] = ..., phase_ns: _Optional[int] = ..., policy: _Optional[str] = ..., takes_state: _Optional[bool] = ...) -> None: ...

class Claims(_message.Message):
    __slots__ = ("flow", "size_bytes", "urgency", "compute_ns", "remaining_ns", "sent_bytes", "planned_bytes", "upstream_count", "upstream", "downstream_count", "downstream", "plan_slots", "plan_bps", "promised_bytes", "weight", "weighable", "unstoppable")
    FLOW_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    URGENCY_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_NS_FIELD_NUMBER: _ClassVar[int]
    REMAINING_NS_FIELD_NUMBER: _ClassVar[int]
    SENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    PLANNED_BYTES_FIELD_NUMBER: _ClassVar[int]
    UPSTREAM_COUNT_FIELD_NUMBER: _ClassVar[int]
    UPSTREAM_FIELD_NUMBER: _ClassVar[int]
    DOWNSTREAM_COUNT_FIELD_NUMBER: _ClassVar[int]
    DOWNSTREAM_FIELD_NUMBER: _ClassVar[int]
    PLAN_SLOTS_FIELD_NUMBER: _ClassVar[int]
    PLAN_BPS_FIELD_NUMBER: _ClassVar[int]
    PROMISED_BYTES_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    WEIGHABLE_FIELD_NUMBER: _ClassVar[int]
    UNSTOPPABLE_FIELD_NUMBER: _ClassVar[int]
    flow: _containers.RepeatedScalarFieldContainer[str]
    size_bytes: _containers.RepeatedScalarFieldContainer[float]
    urgency: _containers.RepeatedScalarFieldContainer[float]
    compute_ns: _containers.RepeatedScalarFieldContainer[float]
    remaining_ns: _containers.RepeatedScalarFieldContainer[float]
    sent_bytes: _containers.RepeatedScalarFieldContainer[float]
    planned_bytes: _containers.RepeatedScalarFieldContainer[float]
    upstream_count: _containers.RepeatedScalarFieldContainer[int]
    upstream: _containers.RepeatedScalarFieldContainer[str]
    downstream_count: _containers.RepeatedScalarFieldContainer[int]
    downstream: _containers.RepeatedScalarFieldContainer[str]
    plan_slots: _containers.RepeatedScalarFieldContainer[int]
    plan_bps: _containers.RepeatedScalarFieldContainer[float]
    promised_bytes: _containers.RepeatedScalarFieldContainer[float]
    weight: _containers.RepeatedScalarFieldContainer[float]
    weighable: _containers.RepeatedScalarFieldContainer[bool]
    unstoppable: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, flow: _Optional[_Iterable[str]] = ..., size_bytes: _Optional[_Iterable[float]] = ..., urgency: _Optional[_Iterable[float]] = ..., compute_ns: _Optional[_Iterable[float]] = ..., remaining_ns: _Optional[_Iterable[float]] = ..., sent_bytes: _Optional[_Iterable[float]] = ..., planned_bytes: _Optional[_Iterable[float]] = ..., upstream_count: _Optional[_Iterable[int]] = ..., upstream: _Optional[_Iterable[str]] = ..., downstream_count: _Optional[_Iterable[int]] = ..., downstream: _Optional[_Iterable[str]] = ..., plan_slots: _Optional[_Iterable[int]] = ..., plan_bps: _Optional[_Iterable[float]] = ..., promised_bytes: _Optional[_Iterable[float]] = ..., weight: _Optional[_Iterable[float]] = ..., weighable: _Optional[_Iterable[bool]] = ..., unstoppable: _Optional[_Iterable[bool]] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("sender", "number", "first_slot", "claims", "withdrawn", "withdrawn_bytes", "others_bps", "left")
    SENDER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FIRST_SLOT_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    WITHDRAWN_BYTES_FIELD_NUMBER: _ClassVar[int]
    OTHERS_BPS_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    sender: str
    number: int
    first_slot: int
    claims: Claims
    withdrawn: _containers.RepeatedScalarFieldContainer[str]
    withdrawn_bytes: _containers.RepeatedScalarFieldContainer[float]
    others_bps: float
    left: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, sender: _Optional[str] = ..., number: _Optional[int] = ..., first_slot: _Optional[int] = ..., claims: _Optional[_Union[Claims, _Mapping]] = ..., withdrawn: _Optional[_Iterable[str]] = ..., withdrawn_bytes: _Optional[_Iterable[float]] = ..., others_bps: _Optional[float] = ..., left: _Optional[_Iterable[bool]] = ...) -> None: ...

class Feedback(_message.Message):
    __slots__ = ("sender", "answers", "first_slot", "flow", "accepted", "share_bps", "ceiling_bps", "available_bps", "load", "alone_ns", "upstream_bytes", "downstream_bytes", "silent", "stands_for", "uncontended", "contended")
    SENDER_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    FIRST_SLOT_FIELD_NUMBER: _ClassVar[int]
    FLOW_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    SHARE_BPS_FIELD_NUMBER: _ClassVar[int]
    CEILING_BPS_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_BPS_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    ALONE_NS_FIELD_NUMBER: _ClassVar[int]
    UPSTREAM_BYTES_FIELD_NUMBER: _ClassVar[int]
    DOWNSTREAM_BYTES_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    STANDS_FOR_FIELD_NUMBER: _ClassVar[int]
    UNCONTENDED_FIELD_NUMBER: _ClassVar[int]
    CONTENDED_FIELD_NUMBER: _ClassVar[int]
    sender: str
    answers: int
    first_slot: int
    flow: _containers.RepeatedScalarFieldContainer[str]
    accepted: _containers.RepeatedScalarFieldContainer[bool]
    share_bps: _containers.RepeatedScalarFieldContainer[float]
    ceiling_bps: _containers.RepeatedScalarFieldContainer[float]
    available_bps: _containers.RepeatedScalarFieldContainer[float]
    load: _containers.RepeatedScalarFieldContainer[float]
    alone_ns: _containers.RepeatedScalarFieldContainer[int]
    upstream_bytes: _containers.RepeatedScalarFieldContainer[float]
    downstream_bytes: _containers.RepeatedScalarFieldContainer[float]
    silent: _containers.RepeatedScalarFieldContainer[str]
    stands_for: _containers.RepeatedScalarFieldContainer[float]
    uncontended: _containers.RepeatedScalarFieldContainer[bool]
    contended: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sender: _Optional[str] = ..., answers: _Optional[int] = ..., first_slot: _Optional[int] = ..., flow: _Optional[_Iterable[str]] = ..., accepted: _Optional[_Iterable[bool]] = ..., share_bps: _Optional[_Iterable[float]] = ..., ceiling_bps: _Optional[_Iterable[float]] = ..., available_bps: _Optional[_Iterable[float]] = ..., load: _Optional[_Iterable[float]] = ..., alone_ns: _Optional[_Iterable[int]] = ..., upstream_bytes: _Optional[_Iterable[float]] = ..., downstream_bytes: _Optional[_Iterable[float]] = ..., silent: _Optional[_Iterable[str]] = ..., stands_for: _Optional[_Iterable[float]] = ..., uncontended: _Optional[_Iterable[bool]] = ..., contended: _Optional[_Iterable[str]] = ...) -> None: ...

class EscalatedClaims(_message.Message):
    __slots__ = ("sender", "claims", "withdrawn")
    SENDER_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    sender: str
    claims: Claims
    withdrawn: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sender: _Optional[str] = ..., claims: _Optional[_Union[Claims, _Mapping]] = ..., withdrawn: _Optional[_Iterable[str]] = ...) -> None: ...

class ShareUpdate(_message.Message):
    __slots__ = ("sender", "flow", "share_bps", "ceiling_bps", "stands_for")
    SENDER_FIELD_NUMBER: _ClassVar[int]
    FLOW_FIELD_NUMBER: _ClassVar[int]
    SHARE_BPS_FIELD_NUMBER: _ClassVar[int]
    CEILING_BPS_FIELD_NUMBER: _ClassVar[int]
    STANDS_FOR_FIELD_NUMBER: _ClassVar[int]
    sender: str
    flow: _containers.RepeatedScalarFieldContainer[str]
    share_bps: _containers.RepeatedScalarFieldContainer[float]
    ceiling_bps: _containers.RepeatedScalarFieldContainer[float]
    stands_for: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, sender: _Optional[str] = ..., flow: _Optional[_Iterable[str]] = ..., share_bps: _Optional[_Iterable[float]] = ..., ceiling_bps: _Optional[_Iterable[float]] = ..., stands_for: _Optional[_Iterable[float]] = ...) -> None: ...

class HostMessage(_message.Message):
    __slots__ = ("sent_ns", "hello", "report", "state")
    SENT_NS_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    sent_ns: int
    hello: Hello
    report: Report
    state: HostState
    def __init__(self, sent_ns: _Optional[int] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., report: _Optional[_Union[Report, _Mapping]] = ..., state: _Optional[_Union[HostState, _Mapping]] = ...) -> None: ...

class HostState(_message.Message):
    __slots__ = ("host", "mode", "backend", "version", "enforcing", "missed_slots", "job", "job_count", "trouble")
    class Job(_message.Message):
        __slots__ = ("name", "phase", "paced", "iteration", "iteration_ms", "slowdown", "why")
        NAME_FIELD_NUMBER: _ClassVar[int]
        PHASE_FIELD_NUMBER: _ClassVar[int]
        PACED_FIELD_NUMBER: _ClassVar[int]
        ITERATION_FIELD_NUMBER: _ClassVar[int]
        ITERATION_MS_FIELD_NUMBER: _ClassVar[int]
        SLOWDOWN_FIELD_NUMBER: _ClassVar[int]
        WHY_FIELD_NUMBER: _ClassVar[int]
        name: str
        phase: str
        paced: bool
        iteration: int
        iteration_ms: float
        slowdown: float
        why: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, name: _Optional[str] = ..., phase: _Optional[str] = ..., paced: _Optional[bool] = ..., iteration: _Optional[int] = ..., iteration_ms: _Optional[float] = ..., slowdown: _Optional[float] = ..., why: _Optional[_Iterable[str]] = ...) -> None: ...
    class TroubleEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    HOST_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ENFORCING_FIELD_NUMBER: _ClassVar[int]
    MISSED_SLOTS_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    JOB_COUNT_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    host: str
    mode: str
    backend: str
    version: str
    enforcing: bool
    missed_slots: int
    job: _containers.RepeatedCompositeFieldContainer[HostState.Job]
    job_count: int
    trouble: _containers.ScalarMap[str, int]
    def __init__(self, host: _Optional[str] = ..., mode: _Optional[str] = ..., backend: _Optional[str] = ..., version: _Optional[str] = ..., enforcing: _Optional[bool] = ..., missed_slots: _Optional[int] = ..., job: _Optional[_Iterable[_Union[HostState.Job, _Mapping]]] = ..., job_count: _Optional[int] = ..., trouble: _Optional[_Mapping[str, int]] = ...) -> None: ...

class SwitchMessage(_message.Message):
    __slots__ = ("clock", "welcome", "feedback")
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    FEEDBACK_FIELD_NUMBER: _ClassVar[int]
    clock: ClockEcho
    welcome: Welcome
    feedback: Feedback
    def __init__(self, clock: _Optional[_Union[ClockEcho, _Mapping]] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., feedback: _Optional[_Union[Feedback, _Mapping]] = ...) -> None: ...

class ClockEcho(_message.Message):
    __slots__ = ("echo_ns", "received_ns", "sent_ns", "off_by_ns")
    ECHO_NS_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_NS_FIELD_NUMBER: _ClassVar[int]
    SENT_NS_FIELD_NUMBER: _ClassVar[int]
    OFF_BY_NS_FIELD_NUMBER: _ClassVar[int]
    echo_ns: int
    received_ns: int
    sent_ns: int
    off_by_ns: int
    def __init__(self, echo_ns: _Optional[int] = ..., received_ns: _Optional[int] = ..., sent_ns: _Optional[int] = ..., off_by_ns: _Optional[int] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("sent_ns", "hello", "welcome", "envelope", "clock")
    SENT_NS_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    ENVELOPE_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    sent_ns: int
    hello: Hello
    welcome: Welcome
    envelope: _containers.RepeatedCompositeFieldContainer[Envelope]
    clock: ClockEcho
    def __init__(self, sent_ns: _Optional[int] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., envelope: _Optional[_Iterable[_Union[Envelope, _Mapping]]] = ..., clock: _Optional[_Union[ClockEcho, _Mapping]] = ...) -> None: ...

class Envelope(_message.Message):
    __slots__ = ("source", "to", "report", "feedback", "escalated_claims", "share_update", "unreachable")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    FEEDBACK_FIELD_NUMBER: _ClassVar[int]
    ESCALATED_CLAIMS_FIELD_NUMBER: _ClassVar[int]
    SHARE_UPDATE_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    source: str
    to: str
    report: Report
    feedback: Feedback
    escalated_claims: EscalatedClaims
    share_update: ShareUpdate
    unreachable: bool
    def __init__(self, source: _Optional[str] = ..., to: _Optional[str] = ..., report: _Optional[_Union[Report, _Mapping]] = ..., feedback: _Optional[_Union[Feedback, _Mapping]] = ..., escalated_claims: _Optional[_Union[EscalatedClaims, _Mapping]] = ..., share_update: _Optional[_Union[ShareUpdate, _Mapping]] = ..., unreachable: _Optional[bool] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("every_slots", "link", "host_states")
    EVERY_SLOTS_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    HOST_STATES_FIELD_NUMBER: _ClassVar[int]
    every_slots: int
    link: _containers.RepeatedScalarFieldContainer[str]
    host_states: bool
    def __init__(self, every_slots: _Optional[int] = ..., link: _Optional[_Iterable[str]] = ..., host_states: _Optional[bool] = ...) -> None: ...

class TableSnapshot(_message.Message):
    __slots__ = ("name", "slot", "slot_length_ns", "link", "capacity_bps", "horizon", "load_bps", "flows", "host", "silent", "refused", "messages", "plans_refused", "job", "urgency", "part_link", "part_job", "part_bps", "part_share_bps", "policy", "own_host", "host_state", "others_bps")
    class RefusedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    SLOT_LENGTH_NS_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_BPS_FIELD_NUMBER: _ClassVar[int]
    HORIZON_FIELD_NUMBER: _ClassVar[int]
    LOAD_BPS_FIELD_NUMBER: _ClassVar[int]
    FLOWS_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    PLANS_REFUSED_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    URGENCY_FIELD_NUMBER: _ClassVar[int]
    PART_LINK_FIELD_NUMBER: _ClassVar[int]
    PART_JOB_FIELD_NUMBER: _ClassVar[int]
    PART_BPS_FIELD_NUMBER: _ClassVar[int]
    PART_SHARE_BPS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    OWN_HOST_FIELD_NUMBER: _ClassVar[int]
    HOST_STATE_FIELD_NUMBER: _ClassVar[int]
    OTHERS_BPS_FIELD_NUMBER: _ClassVar[int]
    name: str
    slot: int
    slot_length_ns: int
    link: _containers.RepeatedScalarFieldContainer[str]
    capacity_bps: _containers.RepeatedScalarFieldContainer[float]
    horizon: int
    load_bps: _containers.RepeatedScalarFieldContainer[float]
    flows: _containers.RepeatedScalarFieldContainer[int]
    host: _containers.RepeatedScalarFieldContainer[str]
    silent: _containers.RepeatedScalarFieldContainer[str]
    refused: _containers.ScalarMap[str, int]
    messages: int
    plans_refused: int
    job: _containers.RepeatedScalarFieldContainer[str]
    urgency: _containers.RepeatedScalarFieldContainer[float]
    part_link: _containers.RepeatedScalarFieldContainer[int]
    part_job: _containers.RepeatedScalarFieldContainer[int]
    part_bps: _containers.RepeatedScalarFieldContainer[float]
    part_share_bps: _containers.RepeatedScalarFieldContainer[float]
    policy: str
    own_host: _containers.RepeatedScalarFieldContainer[str]
    host_state: _containers.RepeatedCompositeFieldContainer[HostState]
    others_bps: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, name: _Optional[str] = ..., slot: _Optional[int] = ..., slot_length_ns: _Optional[int] = ..., link: _Optional[_Iterable[str]] = ..., capacity_bps: _Optional[_Iterable[float]] = ..., horizon: _Optional[int] = ..., load_bps: _Optional[_Iterable[float]] = ..., flows: _Optional[_Iterable[int]] = ..., host: _Optional[_Iterable[str]] = ..., silent: _Optional[_Iterable[str]] = ..., refused: _Optional[_Mapping[str, int]] = ..., messages: _Optional[int] = ..., plans_refused: _Optional[int] = ..., job: _Optional[_Iterable[str]] = ..., urgency: _Optional[_Iterable[float]] = ..., part_link: _Optional[_Iterable[int]] = ..., part_job: _Optional[_Iterable[int]] = ..., part_bps: _Optional[_Iterable[float]] = ..., part_share_bps: _Optional[_Iterable[float]] = ..., policy: _Optional[str] = ..., own_host: _Optional[_Iterable[str]] = ..., host_state: _Optional[_Iterable[_Union[HostState, _Mapping]]] = ..., others_bps: _Optional[_Iterable[float]] = ...) -> None: ...
