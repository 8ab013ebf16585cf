# SPDX-License-Identifier: Apache-2.0
"""A BPF program of another owner on a cgroup. It passes all packets."""

import ctypes
import json
import os
import struct
import subprocess
from pathlib import Path

BPF_PROG_LOAD, BPF_PROG_ATTACH = 5, 8
BPF_PROG_TYPE_CGROUP_SKB, BPF_CGROUP_INET_EGRESS = 8, 1
BPF_F_ALLOW_MULTI = 2
SYS_BPF = {"x86_64": 321, "aarch64": 280}


def bpf(command: int, attributes: bytes) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(attributes, 128)
    result = libc.syscall(SYS_BPF[os.uname().machine], command, buffer, 128)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"bpf({command})")
    return result


class Passing:
    """`r0 = 1; exit`, attached without a link, as old tools do."""

    def __init__(self, cgroup: Path, name: bytes = b"passing", flags: int = BPF_F_ALLOW_MULTI) -> None:
        code = ctypes.create_string_buffer(struct.pack("<BBhiBBhi", 0xB7, 0, 0, 1, 0x95, 0, 0, 0))
        licence = ctypes.create_string_buffer(b"GPL")
        load = struct.pack("=IIQQIIQII16sII", BPF_PROG_TYPE_CGROUP_SKB, 2, ctypes.addressof(code), ctypes.addressof(licence),
                           0, 0, 0, 0, 0, name, 0, BPF_CGROUP_INET_EGRESS)  # fmt: skip
        self.cgroup = os.open(cgroup, os.O_RDONLY)
        self.program = bpf(BPF_PROG_LOAD, load)
        bpf(BPF_PROG_ATTACH, struct.pack("=IIII", self.cgroup, self.program, BPF_CGROUP_INET_EGRESS, flags))

    def close(self) -> None:
        bpf(9, struct.pack("=IIII", self.cgroup, self.program, BPF_CGROUP_INET_EGRESS, 0))  # BPF_PROG_DETACH
        os.close(self.program)
        os.close(self.cgroup)


def attached(cgroup: Path) -> dict[int, str]:
    """The programs that are attached to this cgroup: id -> name."""
    out = subprocess.run(["bpftool", "--json", "cgroup", "show", str(cgroup)], capture_output=True, text=True, check=True,
                         env={**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin"}).stdout  # fmt: skip
    # bpftool 7.1 prints a single bracket for an empty list.
    return {program["id"]: program["name"] for program in json.loads(out)} if out.strip().startswith("[") else {}
