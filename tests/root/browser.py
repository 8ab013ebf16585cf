# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, controlled over WebDriver."""

import base64
import json
import urllib.request
from pathlib import Path
from typing import Any

from conftest import end, free_port, spawn, until


class Browser:
    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self.process = spawn(["chromedriver", f"--port={self.port}"], directory / "chromedriver.log")
        self.session = ""
        until(self._answers, "chromedriver answers", 0.1)
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={directory / 'profile'}"]
        options = {"alwaysMatch": {"goog:chromeOptions": {"args": arguments}}}
        self.session = "/session/" + self._post("/session", {"capabilities": options})["sessionId"]

    def _post(self, path: str, body: Any = None, method: str = "POST") -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{self.session}{path}", data, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def _answers(self) -> bool:
        try:
            return bool(self._post("/status", method="GET")["ready"])
        except OSError:
            return False

    def shape(self, width: int, height: int, dark: bool) -> None:
        """Sets the screen size and the colour scheme."""
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 640}
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._devtools("Emulation.setDeviceMetricsOverride", screen)
        self._devtools("Emulation.setEmulatedMedia", {"features": [scheme]})

    def _devtools(self, command: str, parameters: Any) -> Any:
        return self._post("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def open(self, url: str) -> None:
        self._post("/url", {"url": url})

    def run(self, script: str) -> Any:
        """Runs the body of a function in the page, and returns its value. The page's security policy does not apply."""
        return self._post("/execute/sync", {"script": script, "args": []})

    def picture(self, path: Path) -> None:
        shot = self._devtools("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True})
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        try:
            self._post("", method="DELETE")
        finally:
            end(self.process)
