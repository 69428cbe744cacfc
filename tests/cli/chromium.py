"""A headless Chromium that a test types into: the DevTools protocol over two pipes, as far as the tests need it.

Nothing here waits without an end: an answer that does not come within `patience_s` fails the test.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, Self

from support.waiting import patience_s, wait_until

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NO_CHROMIUM: Final = "no chromium, chromium-browser or google-chrome in PATH"
_LAUNCH: Final = """
import os, sys
os.dup2(int(sys.argv[1]), 103)
os.dup2(int(sys.argv[2]), 104)
os.dup2(103, 3)
os.dup2(104, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Gives the pipes the numbers that the browser looks for; by way of others, as the one may have the other's."""
_KEY_CODES: Final = {"Tab": 9, "Enter": 13, "PageDown": 34, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39}


class Chromium:
    """One window with one page. `profile` is an empty folder."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        options = ["--headless=new", "--disable-gpu", f"--user-data-dir={profile}", "--remote-debugging-pipe"]
        if os.getuid() == 0:
            options.append("--no-sandbox")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(theirs_in), str(theirs_out), CHROMIUM, *options, "about:blank"],
            pass_fds=[theirs_in, theirs_out],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._received = b""
        self._last_id = 0
        self._session: str | None = None

    def __enter__(self) -> Self:
        try:
            pages = self._call("Target.getTargets")["targetInfos"]
            target = next(page["targetId"] for page in pages if page["type"] == "page")
            self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._to)
        os.close(self._from)
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def open(self, url: str) -> None:
        self._call("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        """What a JavaScript expression is on the page, which may still be loading."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Until it is true."""
        wait_until(lambda: self.value(expression) is True, lambda: f"not on the page: {expression}")

    def press(self, key: str) -> None:
        """Press a key and let it go, as a person does."""
        what = {"key": key, "code": key, "windowsVirtualKeyCode": _KEY_CODES[key]}
        if key == "Enter":
            what["text"] = "\r"
        self._call("Input.dispatchKeyEvent", type="keyDown", **what)
        self._call("Input.dispatchKeyEvent", type="keyUp", **what)

    def _call(self, method: str, **parameters: Any) -> Any:
        self._last_id += 1
        message: dict[str, Any] = {"id": self._last_id, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last_id:
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self) -> Any:
        while b"\0" not in self._received:
            assert select.select([self._from], [], [], patience_s())[0], "the browser does not answer"
            received = os.read(self._from, 65_536)
            assert received, "the browser has ended"
            self._received += received
        message, _, self._received = self._received.partition(b"\0")
        return json.loads(message)
