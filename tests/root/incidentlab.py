# SPDX-License-Identifier: Apache-2.0
"""Reaches limits at will: the inotify instances of a user whom nobody else is, and the files of the processes of another."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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


FLOODER = 64124
FILES = f"""
import os, pathlib, resource, signal, sys
number, cgroup = sys.argv[1:]
pathlib.Path(cgroup, "cgroup.procs").write_text("0")
pathlib.Path("/proc/self/comm").write_text("flood" + number)
os.setuid({FLOODER})
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
try:
    while True:
        os.open("/", 0)
except OSError:
    os.write(1, b"full\\n")
signal.pause()
"""


@contextlib.contextmanager
def flood_of_files(count: int) -> Iterator[None]:
    """Processes of one user, each with a name and in a session of its own, that have all files which they may have."""
    root = next(Path(line.split()[1]) for line in Path("/proc/mounts").read_text().splitlines() if line.split()[2] == "cgroup2")
    slice_of_user = root / f"user.slice/user-{FLOODER}.slice"
    sessions = [slice_of_user / f"session-{n}.scope" for n in range(count)]
    processes = []
    try:
        for n, session in enumerate(sessions):
            session.mkdir(parents=True)
            processes.append(subprocess.Popen([sys.executable, "-c", FILES, str(n), str(session)], stdout=subprocess.PIPE, text=True))
        for process in processes:
            assert process.stdout and process.stdout.readline() == "full\n"
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
        for session in [*sessions, slice_of_user]:
            with contextlib.suppress(OSError):
                os.rmdir(session)
