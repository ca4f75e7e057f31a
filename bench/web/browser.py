"""A few lines of Chromium's DevTools protocol, over a pipe: no library, no port that another process could use.

Messages are JSON objects that end with a zero byte, ours on descriptor 3, the browser's on 4. `errors` are what a page
wrote into the console as an error, the exceptions it did not catch, and the requests that failed.
"""

import base64
import json
import os
import select
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from paceline.failure import Failure

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--remote-debugging-pipe"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb"),
]
ANSWER_S = 30.0

Start = Callable[..., Any]  # starts a process as subprocess.Popen does


def chromium() -> str | None:
    """Its program; None: there is none. PACELINE_CHROMIUM names another one."""
    named = os.environ.get("PACELINE_CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page. Use as a context manager: the browser ends with the block."""

    def __init__(self, start: Start, width: int = 1200, height: int = 900) -> None:
        program = chromium()
        if program is None:
            raise Failure("no Chromium here: scripts/setup browser")
        self._directory = tempfile.mkdtemp(prefix="paceline-browser-")
        self.errors: list[str] = []
        self._number, self._buffer = 0, b""
        their_in, self._out = os.pipe()
        self._in, their_out = os.pipe()
        for ours in (self._in, self._out):
            os.set_inheritable(ours, False)
        # The shell puts the two pipes where Chromium looks for them.
        script = f'exec 3<&{their_in} 4>&{their_out} {their_in}<&- {their_out}>&-; exec "$@"'
        arguments = [program, *FLAGS, f"--user-data-dir={self._directory}", f"--window-size={width},{height}"]
        with Path(self._directory, "log").open("wb") as log:
            self._process = start(
                ["bash", "-c", script, "bash", *arguments, "about:blank"],
                pass_fds=(their_in, their_out),
                stdout=log,
                stderr=log,
            )
        os.close(their_in)
        os.close(their_out)
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        with self._process:
            self._process.kill()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._directory, ignore_errors=True)

    # ---- What a person does ----

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'", ANSWER_S)

    def resize(self, width: int, height: int, scale: float = 1.0) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False
        )

    def dark(self, wanted: bool) -> None:
        value = "dark" if wanted else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def text(self, selector: str = "body") -> str:
        found = self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")
        assert isinstance(found, str)
        return found

    def until(self, expression: str, limit_s: float = 10.0) -> float:
        """Until it is true in the page; how long that took."""
        begun_s = time.monotonic()
        while not self.evaluate(expression):
            if time.monotonic() - begun_s > limit_s:
                raise AssertionError(f"it never came: {expression}")
            time.sleep(0.05)
        return time.monotonic() - begun_s

    def screenshot(self, path: Path, whole: bool = False) -> None:
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    # ---- The protocol ----

    def evaluate(self, expression: str) -> object:
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise AssertionError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        end_s = time.monotonic() + ANSWER_S
        while True:
            answer = self._next(end_s)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise Failure(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _next(self, end_s: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end_s - time.monotonic()))
            data = os.read(self._in, 1 << 20) if ready else b""
            if not data:
                log = Path(self._directory, "log").read_text(errors="replace").strip()
                raise Failure(f"Chromium {'says nothing' if not ready else 'ended'}: {log[-300:]}")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        said = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(str(said["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if said["type"] in ("error", "assert"):
                self.errors.append(str(said["args"]))
            case "Log.entryAdded" if said["entry"]["level"] == "error":
                self.errors.append(f"{said['entry']['text']} {said['entry'].get('url', '')}")
            case "Network.loadingFailed" if not said.get("canceled"):
                self.errors.append(said["errorText"])
