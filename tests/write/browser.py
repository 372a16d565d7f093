"""Chromium, without a window, driven through a pipe: what a page logs and fetches, and what it does when clicked."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)


class Page:
    """One page, opened from a file."""

    def __init__(self, path: Path, width: int = 1280, dark: bool = False) -> None:
        assert CHROMIUM is not None
        self._numbers = itertools.count(1)
        self.events: list[dict[str, Any]] = []
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        # Chromium reads from its descriptor 3 and writes to 4.
        high = [fcntl.fcntl(each, fcntl.F_DUPFD, 20) for each in (to_read, to_write)]

        def hand_over() -> None:
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self._process = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             f"--user-data-dir={path.parent / 'chromium'}", f"--window-size={width},900", "about:blank"],
            preexec_fn=hand_over, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for each in high:
            os.close(each)
        os.close(to_read)
        os.close(to_write)
        self._buffer = b""
        self._session: str | None = None
        pages = self._ask("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in pages if t["type"] == "page")
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._ask("Emulation.setEmulatedMedia", features=scheme)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self._ask("Emulation.setDeviceMetricsOverride", **size)
        self._ask("Emulation.setFocusEmulationEnabled", enabled=True)
        for domain in ("Runtime", "Log", "Network", "Page"):
            self._ask(f"{domain}.enable")
        self._ask("Page.navigate", url=path.as_uri())
        self.evaluate("new Promise(done => document.readyState === 'complete' ? done() : onload = done)")

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None and not method.startswith("Target."):
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == number:
                assert "error" not in found, found["error"]
                result: dict[str, Any] = found["result"]
                return result
            self.events.append(found)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            read = os.read(self._read, 1 << 16)
            assert read, "chromium ended"
            self._buffer += read
        one, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(one)
        return found

    def evaluate(self, script: str) -> Any:
        found = self._ask(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def complaints(self) -> list[dict[str, Any]]:
        """What the console and the page's own log hold."""
        wanted = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
        return [e for e in self.events if e.get("method") in wanted]

    def fetched(self) -> list[str]:
        return [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]

    def allow_clipboard(self) -> None:
        self._session, session = None, self._session
        self._ask("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        self._session = session

    def screenshot(self, path: Path) -> None:
        import base64

        data = self._ask("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def __enter__(self) -> Page:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)
