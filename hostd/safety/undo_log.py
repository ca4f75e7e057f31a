"""The undo log: everything hostd changed in the kernel and how to take it back, on disk before it is changed.

    record(key, undo)     on disk first, then the change; of two records for one key the first holds the original
    take_back(keys)       perform and forget, newest first; what is no socket's comes before
    take_back_owed()      what take_back could not do, once more
    release(path)         the same for another process: guardian, ExecStopPost, `paceline release --all`

One JSON object per line, appended in one write each: a head that says where it belongs, then entries and the keys of
entries that are over. A last line that is cut off was written by a hostd that died before making the change.

The file exists exactly as long as the lease. If it is gone, the guardian or an operator released the lease: `Revoked`,
and nothing that this process remembers holds any more. The same where another program cut it short. It belongs in a
runtime directory that does not outlive a boot; a file of another boot or another network namespace names other devices,
and nothing of it is performed. Neither such a file nor a broken one keeps a new lease from beginning: it is moved
aside, for people to look at.
"""

import errno
import json
import os
import struct
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from hostd.kernel.calls import LATE, PATIENT_S, Answer, Call, made_by, made_here, perform, perform_all
from hostd.safety.undo import SocketUndo, Undo, as_json, from_json
from hostd.workers.pool import Workers

VERSION = 2

# As long as jobs come and go the file grows by a line each; rewritten when most of it is history.
_LINES_PER_ENTRY = 16


class Revoked(Exception):
    """The lease was taken from this hostd: every limit has been lifted."""


class BadUndoLog(Exception):
    """The file is not an undo log of this boot and network namespace; str() says why."""


class UndoLog:
    """Entries of one lease; opening it takes back what a predecessor left behind.

    What cannot be taken back now stays among the entries, to be tried again: it is still the original.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.leftovers: dict[str, str] = {}  # problems by key; {} when there was nothing or all went well
        self._entries = self._take_over(path)
        self._owed = set(self._entries)  # should have been taken back
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._rewrite()

    def record(self, entries: Mapping[str, Undo]) -> None:
        """On disk when this returns; raises Revoked, or OSError with nothing recorded."""
        self.check()
        self._owed -= entries.keys()
        fresh = {key: undo for key, undo in entries.items() if key not in self._entries}
        if fresh:
            self._append({"entries": {key: as_json(undo) for key, undo in fresh.items()}})
            self._entries |= fresh

    def has(self, key: str) -> bool:
        """Whether it is still to be taken back."""
        return key in self._entries

    def forget(self, keys: Iterable[str]) -> None:
        """What these would take back has gone by itself: a closed socket, a vanished device."""
        over = [key for key in keys if self._entries.pop(key, None) is not None]
        if over:
            try:
                self._append({"over": over})
            except Revoked:
                return  # and so is everything else
            if self._lines > _LINES_PER_ENTRY * (len(self._entries) + 1):
                self._rewrite()

    def take_back(self, keys: Iterable[str]) -> dict[str, str]:
        """Undoes these, newest first; returns the problems by key. Works after a revocation too.

        What a job keeps from being taken back is owed. A call that has only not returned yet is no problem so far.
        """
        problems = self._take_back(keys, lambda calls: perform(calls, PATIENT_S))
        self._owed |= problems.keys()
        return {key: why for key, why in problems.items() if why != LATE}

    def take_back_owed(self) -> dict[str, str]:
        """Again; returns the problems by key."""
        self._owed &= self._entries.keys()
        if not self._owed:
            return {}
        problems = self._take_back(self._owed, lambda calls: perform(calls, PATIENT_S))
        self._owed = set(problems)
        return problems

    def _take_back(self, keys: Iterable[str], some: Callable[[list[Call]], list[Answer]]) -> dict[str, str]:
        wanted = set(keys)
        problems = _perform({key: undo for key, undo in self._entries.items() if key in wanted}, some)
        self.forget(wanted - problems.keys())
        return problems

    def check(self) -> None:
        """Raises Revoked if the guardian or an operator released the lease, or the file is not what was written."""
        try:
            self._compare(self.path.stat())
        except FileNotFoundError:
            raise Revoked(f"{self.path} is gone") from None

    def _compare(self, found: os.stat_result) -> None:
        """A file that was cut short cannot be played back: with hostd's death its limits would stay."""
        if found.st_size != self._size_bytes:
            raise Revoked(f"{self.path} has {found.st_size} bytes, not the {self._size_bytes} that hostd wrote")

    def close(self) -> dict[str, str]:
        """Takes everything back and ends the lease; returns the problems by key."""
        problems = self._take_back(list(self._entries), perform_all)
        if not problems:
            self.path.unlink(missing_ok=True)
        return problems

    def _take_over(self, path: Path) -> dict[str, Undo]:
        """What is left of a predecessor's entries."""
        try:
            found = _read(path)
        except BadUndoLog as error:
            aside = path.with_suffix(".bad")
            path.replace(aside)
            self.leftovers = {aside.name: str(error)}
            return {}
        self.leftovers = _perform(found, perform_all)
        return {key: undo for key, undo in found.items() if key in self.leftovers}

    def _append(self, line: Mapping[str, object]) -> None:
        """Never makes the file: without its head it could not be read."""
        try:
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            raise Revoked(f"{self.path} is gone") from None
        text = (json.dumps(line) + "\n").encode()
        try:
            self._compare(os.fstat(file))
            try:
                if os.write(file, text) < len(text):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError:
                os.ftruncate(file, self._size_bytes)  # half a line would spoil the next one, and with it the file
                raise
        finally:
            os.close(file)
        self._lines += 1
        self._size_bytes += len(text)

    def _rewrite(self) -> None:
        entries = {"entries": {key: as_json(undo) for key, undo in self._entries.items()}}
        temporary = self.path.with_suffix(".new")
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "w") as out:
            out.write(json.dumps(_here()) + "\n" + json.dumps(entries) + "\n")
        size_bytes = temporary.stat().st_size
        temporary.replace(self.path)
        self._lines = 2
        self._size_bytes = size_bytes


def release(path: Path) -> dict[str, str]:
    """Takes back everything in the undo log and removes it; returns what could not be taken back, by key.

    For a process without threads, or with workers. It takes RELEASE_S at most, whatever jobs do: devices come first,
    then the sockets of all users at the same time. Nothing to do when there is no file. Raises BadUndoLog, having
    touched nothing.
    """
    entries = _read(path)
    with ExitStack() as stack:
        if made_here():
            workers = Workers(forked=True)
            stack.callback(workers.close)
            stack.enter_context(made_by(workers))
        problems = _perform(entries, perform_all)
    if not problems:
        path.unlink(missing_ok=True)
    return problems


def _read(path: Path) -> dict[str, Undo]:
    """No entries where there is no file."""
    try:
        return _parse(path, path.read_bytes().decode(errors="replace"))
    except FileNotFoundError:
        return {}


def _perform(entries: Mapping[str, Undo], sockets_by: Callable[[list[Call]], list[Answer]]) -> dict[str, str]:
    problems = {}
    calls: dict[str, Call] = {}
    for key, undo in reversed(list(entries.items())):
        try:
            if isinstance(undo, SocketUndo):
                calls[key] = undo.call()
            else:
                undo.perform()
        except OSError as error:
            problems[key] = error.strerror or str(error)
        except (ValueError, TypeError, OverflowError, struct.error) as error:  # nothing that hostd would have written
            problems[key] = repr(error)
    for key, answer in zip(calls, sockets_by(list(calls.values())), strict=True):
        if isinstance(answer, OSError):  # SocketGone is as good as taken back
            problems[key] = answer.strerror or str(answer)
    return problems


def _parse(path: Path, text: str) -> dict[str, Undo]:
    entries: dict[str, Undo] = {}
    try:
        head, *lines = text[: text.rindex("\n")].split("\n")
        found = {key: json.loads(head)[key] for key in _here()}
        for line in map(json.loads, lines):
            entries |= {str(key): from_json(fields) for key, fields in line.get("entries", {}).items()}
            for key in line.get("over", ()):
                entries.pop(key, None)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadUndoLog(f"{path}: not an undo log ({error!r})") from None
    for key, expected in _here().items():
        if found[key] != expected:
            raise BadUndoLog(f"{path}: {key} is {found[key]!r}, expected {expected!r}")
    return entries


def _here() -> dict[str, object]:
    namespace = Path("/proc/thread-self/ns/net").stat().st_ino
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return {"version": VERSION, "boot": boot, "network_namespace": namespace}
