"""The journal of a state machine: (now, actor, event, effects), one JSON line each, and its replay.

Law: decode(encode(entry)) == entry. An agent built anew and fed the events of a journal must answer with the
effects in it; where it does not, either the journal or the agent's determinism is broken.

The form follows the types, so a new message needs no code here:

    dataclass           {"type": its name, field: value, …}
    NamedTuple, tuple   [value, …]
    enum                its value
    float               a number; "inf", "-inf" and "nan", which JSON lacks, as strings
"""

import json
import math
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Protocol

from paceline.flowcore.messages.events import Effect, HostEvent, HostInput, SwitchEvent, Together


class JournalError(ValueError):
    """A line that is no journal entry, or an entry of an unknown actor."""


@dataclass(frozen=True, slots=True)
class Entry:
    now_ns: int
    actor: str  # the host or switch
    event: HostInput | SwitchEvent
    effects: tuple[Effect, ...]

    @property
    def events(self) -> tuple[HostEvent | SwitchEvent, ...]:
        """One by one."""
        return self.event.events if isinstance(self.event, Together) else (self.event,)


@dataclass(frozen=True, slots=True)
class Mismatch:
    line: int  # from 1
    entry: Entry
    effects: tuple[Effect, ...]  # what the agent did this time


class Agent(Protocol):
    # Any: a host and a switch take different events, and the journal says which of them it is.
    def handle(self, event: Any, now_ns: int) -> list[Effect]: ...


def encode(entry: Entry) -> str:
    """One line, without the line break."""
    return json.dumps(_plain(entry), separators=(",", ":"), allow_nan=False)


def decode(line: str) -> Entry:
    try:
        entry = _typed(Entry, json.loads(line))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise JournalError(f"no journal entry: {error}") from error
    assert isinstance(entry, Entry)
    return entry


def replay(lines: Iterable[str], agents: Mapping[str, Agent]) -> Iterator[Mismatch]:
    """Feed every event to its agent, as new as when the journal began; yield where the effects differ."""
    for number, line in enumerate(lines, start=1):
        try:
            entry = decode(line)
        except JournalError as error:
            raise JournalError(f"line {number}: {error}") from error
        agent = agents.get(entry.actor)
        if agent is None:
            raise JournalError(f"line {number}: no agent {entry.actor!r}")
        effects = tuple(agent.handle(entry.event, entry.now_ns))
        if effects != entry.effects:
            yield Mismatch(number, entry, effects)


# ---- The form ----


def _plain(value: object) -> object:
    """What JSON can hold."""
    match value:
        case Enum():
            return value.value
        case float() if not math.isfinite(value):
            return str(value)
        case tuple():
            return [_plain(item) for item in value]
    if is_dataclass(value):
        named = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {"type": type(value).__name__, **named}
    return value


def _typed(kind: Any, plain: Any) -> object:
    """What `plain` stands for where a value of the annotated type `kind` belongs."""
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        if plain is None and types.NoneType in typing.get_args(kind):
            return None
        return _typed(_member(kind, plain), plain)
    if origin is tuple:
        return _tuple(typing.get_args(kind), plain)
    if hasattr(kind, "__dataclass_fields__"):  # is_dataclass() would make mypy think of instances
        hints = _hints(kind)
        if not isinstance(plain, dict) or plain.keys() != {"type", *hints} or plain["type"] != kind.__name__:
            raise TypeError(f"expected the fields of {kind.__name__}, found {plain!r:.100}")
        return kind(**{name: _typed(hint, plain[name]) for name, hint in hints.items()})
    if issubclass(kind, tuple):  # a NamedTuple
        return kind(*_tuple(tuple(_hints(kind).values()), plain))
    if issubclass(kind, Enum):
        return kind(plain)
    if kind is float and type(plain) in (int, float, str):
        return float(plain)
    if type(plain) is not kind:
        raise TypeError(f"expected {kind.__name__}, found {plain!r:.100}")
    return plain


def _tuple(kinds: tuple[Any, ...], plain: Any) -> tuple[object, ...]:
    if not isinstance(plain, list):
        raise TypeError(f"expected a list, found {plain!r:.100}")
    if kinds[-1:] == (Ellipsis,):
        kinds = (kinds[0],) * len(plain)
    return tuple(_typed(kind, item) for kind, item in zip(kinds, plain, strict=True))


def _member(union: Any, plain: Any) -> Any:
    """Which type of a union: dataclasses by name, or the only one there is besides None."""
    kinds = [kind for kind in typing.get_args(union) if kind is not types.NoneType]
    if len(kinds) == 1:
        return kinds[0]
    for kind in kinds:
        if kind.__name__ == plain["type"]:
            return kind
    raise ValueError(f"no {plain['type']!r} belongs here")


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return typing.get_type_hints(kind)
