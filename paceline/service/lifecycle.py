"""The life of a daemon, and its exit status.

    0 stopped as asked     1 failed; another try may succeed     2 bad input; none will     130 interrupted

`run_daemon` is the outside (lock, signals, status), `serve` the inside: start-up, main loop, shutdown. A test that
has several daemons in one process calls `serve`, with a Requests of its own instead of signals.
"""

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import uvloop

from paceline.flowcore.model.fields import InputError, printable
from paceline.service.lockfile import AlreadyRunning, only_instance
from paceline.service.notify import Notify, ping_watchdog_while_alive, watchdog_interval

STOPPED = 0
FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 128 + signal.SIGINT

WIND_UP_S = 0.2

_log = logging.getLogger(__name__)


class Daemon(Protocol):
    async def startup(self) -> None:
        """All that must work before the daemon says that it is ready. An OSError here is one line, no traceback."""

    async def run(self) -> None:
        """The main loop; cancelled when the daemon is to stop."""

    async def reload(self) -> None:
        """Validates, then swaps; or NothingToReload. What it raises is logged, and the daemon goes on as it was."""

    async def shutdown(self) -> None:
        """Undoes what `startup` did, also when that failed half-way."""

    def alive(self) -> bool:
        """Whether the main loop has made progress lately; if not, systemd's watchdog kills the daemon."""


@dataclass(slots=True)
class Requests:
    """What signals, or a test, ask of a daemon."""

    stop: asyncio.Event = field(default_factory=asyncio.Event)
    reload: asyncio.Event = field(default_factory=asyncio.Event)
    interrupted: bool = False


class NothingToReload(Exception):
    """The daemon reads everything at its start; str() says what to do instead."""


class CannotStart(Exception):
    """The machine refused something the start needs; str() is the line for the operator."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


def run_daemon(name: str, make: Callable[[], Daemon], lock: Path | None = None) -> int:
    """Makes a daemon and runs it to its end. Every failure is one line on stderr or in the log."""
    try:
        with ExitStack() as held:
            with _os_errors_refuse(BAD_INPUT):
                held.enter_context(only_instance(lock) if lock else nullcontext())
            gc.freeze()  # what the imports made is never garbage: collections need not look at it
            # A message makes hundreds of objects that end with it: after 700, the default, a collection would come with
            # nearly every message, and find nothing.
            gc.set_threshold(20_000)
            return uvloop.run(_serve_with_signals(make))
    except (InputError, AlreadyRunning) as error:
        return _refuse(name, str(error), BAD_INPUT)
    except CannotStart as error:
        return _refuse(name, str(error), error.status)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED
    except Exception:
        _log.critical("%s failed", name, exc_info=True)
        return FAILED


async def _serve_with_signals(make: Callable[[], Daemon]) -> int:
    with _os_errors_refuse(BAD_INPUT):  # a configuration that is not there
        daemon = make()
    requests = Requests()
    with signals(requests):
        await serve(daemon, requests)
        # gRPC's own tasks are ending; cancelled, they would print a traceback past all logs.
        if winding_up := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(winding_up, timeout=WIND_UP_S)
    return INTERRUPTED if requests.interrupted else STOPPED


@contextmanager
def signals(requests: Requests) -> Iterator[None]:
    """SIGTERM and SIGINT stop, SIGHUP reloads; a second SIGINT does not wait for the shutdown."""
    loop, main = asyncio.get_running_loop(), asyncio.current_task()
    assert main is not None

    def interrupt() -> None:
        if requests.interrupted:
            main.cancel()
        requests.interrupted = True
        requests.stop.set()

    handlers = {signal.SIGTERM: requests.stop.set, signal.SIGINT: interrupt, signal.SIGHUP: requests.reload.set}
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


async def serve(daemon: Daemon, requests: Requests, notify: Notify | None = None) -> None:
    """Start-up, main loop, shutdown; returns when a stop was requested or the main loop ended by itself."""
    notify = notify or Notify.from_environment()
    try:
        with _os_errors_refuse(FAILED):  # a busy port, a missing capability
            await _until_stopped(daemon.startup(), requests)
        if not requests.stop.is_set():
            notify.ready()
            watchdog = ping_watchdog_while_alive(notify, watchdog_interval(), daemon.alive)
            async with _beside(watchdog), _beside(_reload_on_request(daemon, requests, notify)):
                await _until_stopped(daemon.run(), requests)
    finally:
        notify.stopping()
        await daemon.shutdown()


async def _reload_on_request(daemon: Daemon, requests: Requests, notify: Notify) -> None:
    while await requests.reload.wait():
        requests.reload.clear()
        notify.reloading()
        try:
            await daemon.reload()
            status = "running; reloaded"
        except NothingToReload as error:
            status = "running; nothing to reload"
            _log.warning("%s: %s", status, error)
        except (InputError, OSError) as error:
            status = "running as before; the reload was refused"
            _log.error("%s: %s", status, error)
        except Exception:
            status = "running as before; the reload failed"
            _log.exception(status)
        notify.ready(status)


async def _until_stopped(work: Coroutine[Any, Any, None], requests: Requests) -> None:
    """Runs `work` to its end, or cancels it and waits for that when a stop is requested."""
    async with _beside(requests.stop.wait()) as stopped, _beside(work) as task:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()  # raises what it raised


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, Any]) -> AsyncIterator["asyncio.Task[Any]"]:
    """A task that ends with the block. What it raises while being cancelled comes out of the block."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        task.result()


@contextmanager
def _os_errors_refuse(status: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CannotStart(reason_of(error), status) from error


def reason_of(error: OSError) -> str:
    """Without Python's number in front."""
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)


def _refuse(name: str, reason: str, status: int) -> int:
    print(f"{name}: {printable(reason)}", file=sys.stderr, flush=True)
    return status
