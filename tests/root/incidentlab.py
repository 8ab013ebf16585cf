# SPDX-License-Identifier: Apache-2.0
"""Reaches a limit at will: the inotify instances of a user whom nobody else is."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator

USER = 64123
SCRIPT = f"""
import ctypes, os, signal, sys
os.setuid({USER})
libc = ctypes.CDLL(None, use_errno=True)
while libc.inotify_init1(0) >= 0:
    pass
print("full", flush=True)
signal.pause()
"""


@contextlib.contextmanager
def full_inotify() -> Iterator[int]:
    """A process that has all inotify instances of its user."""
    process = subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout and process.stdout.readline() == "full\n"
        yield process.pid
    finally:
        process.kill()
        process.wait()
