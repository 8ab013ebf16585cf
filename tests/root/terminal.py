# SPDX-License-Identifier: Apache-2.0
"""A terminal for live commands, and pictures of it."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from html import escape
from pathlib import Path

from conftest import BIN, environment, until

CLEAR = "\x1b[H\x1b[J"  # begins each screen
# SGR code -> attributes of the SVG text.
STYLES = {"1": 'fill="#f0f6fc" font-weight="bold"', "2": 'fill="#7d8590"', "31": 'fill="#ff7b72"', "32": 'fill="#56d364"'}
STYLES |= {"33": 'fill="#e3b341"', "0": 'fill="#c9d1d9"'}
WIDTH, HEIGHT = 8, 19  # pixels of a character


def _foreground() -> None:
    """The process gets the terminal. nohup and shells that start pytest in the background leave signals ignored."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for ignored in (signal.SIGHUP, signal.SIGINT):
        signal.signal(ignored, signal.SIG_DFL)


class Terminal:
    """A terminal that runs `headroom ARGS`. With keep, follower is the open terminal and was its original mode."""

    def __init__(
        self, directory: Path, *args: str, columns: int = 100, rows: int = 30, env: dict[str, str] | None = None, keep: bool = False
    ) -> None:
        self.leader, self.follower = pty.openpty()
        fcntl.ioctl(self.follower, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.was = termios.tcgetattr(self.follower)
        self.process = subprocess.Popen(
            [BIN, *args],
            stdin=self.follower,
            stdout=self.follower,
            stderr=self.follower,
            env={**environment(directory), "TERM": "xterm-256color", **(env or {})},
            start_new_session=True,
            preexec_fn=_foreground,
        )
        if not keep:
            os.close(self.follower)
        os.set_blocking(self.leader, False)
        self.seen = ""

    def press(self, key: str) -> None:
        os.write(self.leader, key.encode())

    def _read(self) -> str:
        """The whole output, with colour codes."""
        try:
            while more := os.read(self.leader, 1 << 20):
                self.seen += more.decode(errors="replace").replace("\r", "")
        except OSError:  # no new output, or the program has ended
            pass
        return self.seen

    def screens(self) -> list[str]:
        """The complete screens, oldest first."""
        return self._read().split(CLEAR)[1:-1]

    def finish(self) -> str:
        """The output until the program ends."""
        until(lambda: self._read() and self.process.poll() is not None, "the end")
        text = self._read()
        self.close()
        return text

    def wait_screens(self, count: int) -> str:
        return until(lambda: len(self.screens()) >= count and self.screens()[-1], f"{count} screens")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.leader)


def plain(screen: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", screen)


def picture(screen: str, command: str) -> str:
    """The screen as SVG."""
    lines = [f"\x1b[2m$ \x1b[0m{command}", *screen.rstrip("\n").split("\n")]
    width = (max(len(plain(line)) for line in lines) + 4) * WIDTH
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {(len(lines) + 1) * HEIGHT}" width="{width}" '
        'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13" xml:space="preserve">',
        '<rect width="100%" height="100%" rx="8" fill="#0d1117"/>',
    ]
    for number, line in enumerate(lines):
        column, style = 2, STYLES["0"]
        for code, run in re.findall(r"\x1b\[(\d+)m|([^\x1b]+)", line):
            style = STYLES[code] if code else style
            for word in re.finditer(r"\S+(?: \S+)*", run):
                x, size = (column + word.start()) * WIDTH, len(word[0]) * WIDTH
                y = (number + 1) * HEIGHT
                parts.append(f'<text x="{x}" y="{y}" textLength="{size}" {style}>{escape(word[0])}</text>')
            column += len(run)
    return "\n".join([*parts, "</svg>\n"])
