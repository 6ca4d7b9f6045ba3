"""A headless Chromium that shows files, driven over pipes by its DevTools protocol."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

MEASURE = Path(__file__).with_name("measure.js").read_text()
"""A script that returns what of a page cannot be read."""
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser")
_OPTIONS = (
    "--headless",
    "--no-sandbox",  # root has none
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
_READ_FD, _WRITE_FD = 3, 4  # those of --remote-debugging-pipe
_COMPLAINTS = frozenset(("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"))


class Picture(NamedTuple):
    """Pixels of a screenshot, four bytes each, in rows."""

    width: int
    height: int
    pixels: bytes

    @property
    def colors(self) -> set[bytes]:
        return {self.pixels[at : at + 3] for at in range(0, len(self.pixels), 4)}

    @property
    def brightness(self) -> float:
        """0 is black, 1 is white."""
        return sum(self.pixels[1::4]) / (255 * len(self.pixels[1::4]))


class Browser:
    """One tab. `complaints` holds what was written to its console, `asked` the addresses it loaded."""

    def __init__(self, to: Any, come_from: Any) -> None:
        self._to, self._from, self._number = to, come_from, 0
        self._session = ""
        self.complaints: list[str] = []
        self.asked: list[str] = []

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of a method."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        self._send(message | ({"sessionId": self._session} if self._session else {}))
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def open(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def show(self, page: Path | str, width: int, scheme: str) -> None:
        """Load a file or a URL at a width of the window, light or dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        url = page if isinstance(page, str) else page.as_uri()
        assert "errorText" not in self.call("Page.navigate", url=url)
        while self.value("document.readyState") != "complete":
            pass

    def value(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press and release a key. `code` is its virtual key code."""
        text = "\r" if key == "Enter" else ""
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, text=text
            )

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def screenshot(self, width: int, height: int, scale: float) -> bytes:
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": scale}
        return base64.b64decode(
            self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
        )

    def _send(self, message: Mapping[str, Any]) -> None:
        self._to.write(json.dumps(message).encode() + b"\0")
        self._to.flush()

    def _receive(self) -> dict[str, Any]:
        parts = []
        while (part := self._from.read(1)) != b"\0":
            assert part, "the browser ended"
            parts.append(part)
        found: dict[str, Any] = json.loads(b"".join(parts))
        return found

    def _note(self, event: Mapping[str, Any]) -> None:
        if event.get("method") in _COMPLAINTS:
            self.complaints.append(json.dumps(event["params"]))
        if event.get("method") == "Network.requestWillBeSent":
            self.asked.append(event["params"]["request"]["url"])


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Start a browser whose files are in `folder`, and end it."""
    program = next((one for one in PROGRAMS if shutil.which(one)), None)
    assert program is not None, "the package chromium-headless-shell is needed"
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    command = [program, *_OPTIONS, f"--user-data-dir={folder}"]
    # The shell puts the two pipes where the browser looks for them, whatever their numbers are.
    moved = f'exec "$@" {_READ_FD}<&{theirs_in} {_WRITE_FD}>&{theirs_out}'
    process = subprocess.Popen(
        ["bash", "-c", moved, "bash", *command],
        pass_fds=(theirs_in, theirs_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        with os.fdopen(ours_out, "wb") as to, os.fdopen(ours_in, "rb") as come_from:
            found = Browser(to, come_from)
            found.open()
            yield found
            with contextlib.suppress(OSError, AssertionError):
                found._session = ""
                found.call("Browser.close")
    finally:
        process.kill()
        process.wait()


def picture(png: bytes) -> Picture:
    """Decode a screenshot: 8 bits of red, green and blue, perhaps alpha, not interlaced."""
    width, height = int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")
    assert (png[24], png[28]) == (8, 0)
    step = {2: 3, 6: 4}[png[25]]
    rows = zlib.decompress(_data(png))
    line, before, pixels = width * step, bytearray(width * step), bytearray()
    for at in range(0, len(rows), line + 1):
        before = _unfiltered(rows[at], bytearray(rows[at + 1 : at + 1 + line]), before, step)
        for pixel in range(0, line, step):
            pixels += before[pixel : pixel + 3] + b"\xff"
    return Picture(width, height, bytes(pixels))


def _data(png: bytes) -> bytes:
    """Return the joined chunks with pixels."""
    at, found = 8, b""
    while at < len(png):
        size, kind = int.from_bytes(png[at : at + 4], "big"), png[at + 4 : at + 8]
        found += png[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        at += size + 12
    return found


def _unfiltered(kind: int, line: bytearray, before: bytearray, step: int) -> bytearray:
    """Undo the filter of a line (PNG specification, section 9)."""
    for at in range(len(line)):
        left = line[at - step] if at >= step else 0
        corner = before[at - step] if at >= step else 0
        line[at] = (line[at] + _guess(kind, left, before[at], corner)) & 0xFF
    return line


def _guess(kind: int, left: int, up: int, corner: int) -> int:
    if kind < 4:
        return (0, left, up, (left + up) // 2)[kind]
    near = left + up - corner
    return min((left, up, corner), key=lambda one: abs(near - one))
