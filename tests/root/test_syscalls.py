# SPDX-License-Identifier: Apache-2.0
"""The agent's own filter of system calls. In all root tests a hit ends the process."""

import contextlib
import platform
import re
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import FORBIDDEN, Agent, kernel_log, read, until

pytestmark = pytest.mark.apart
X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="vm: this architecture has no getpgrp(2)")


def filters(one: Agent) -> set[str]:
    """The seccomp modes of the threads."""
    threads = Path(f"/proc/{one.pid}/task").glob("*/status")
    return {re.findall(r"^Seccomp:\s*(\d)", read(path), re.M)[0] for path in threads}


def replace_a_call(one: Agent) -> "subprocess.Popen[bytes]":
    """Each thread of the agent makes a forbidden call instead of its next openat(2)."""
    inject = "inject=openat:error=ENOENT:syscall=getpgrp:when=1"
    return subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=openat", "-e", inject, "-p", str(one.pid)])


@pytest.mark.quick
def test_the_filter_holds_in_all_threads(directory: Path) -> None:
    with contextlib.closing(Agent(directory, "mode: observe").wait_ready()) as one:
        assert filters(one) == {"2"}
        assert "system calls" not in one.log


@X86
def test_a_call_that_is_not_allowed_fails_and_is_logged(directory: Path) -> None:
    lines: list[str] = []
    hit = re.compile(rf'type=1326 .* comm="headroom" .*syscall={FORBIDDEN} .*code=0x50000')
    with kernel_log() as messages, contextlib.closing(Agent(directory, "mode: observe", env={"HEADROOM_TEST_SYSCALLS": ""}).wait_ready()) as one:
        with replace_a_call(one) as tracer:
            until(lambda: lines.append(messages()) or hit.search("".join(lines)), "a line in the kernel's log")
            tracer.send_signal(signal.SIGINT)
        assert one.get("/livez")[0] == 200


@X86
def test_the_filter_of_the_tests_ends_an_agent_that_makes_such_a_call(directory: Path) -> None:
    with contextlib.closing(Agent(directory, "mode: observe", env={"HEADROOM_TEST_SYSCALLS": "kill"}).wait_ready()) as one:
        with replace_a_call(one):
            assert one.process.wait(30) == -signal.SIGSYS


def test_a_kernel_without_seccomp_costs_one_line(directory: Path) -> None:
    wrap = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=seccomp", "-e", "inject=seccomp:error=ENOSYS")
    with contextlib.closing(Agent(directory, "mode: observe", wrap=wrap).wait_ready()) as one:
        assert filters(one) == {"0"}
        assert len(re.findall("system calls are not restricted: seccomp: ", one.log)) == 1
        assert one.get("/readyz")[0] == 200


CAPABILITIES = {"net_admin": 12, "sys_nice": 23, "perfmon": 38, "bpf": 39}


def test_threads_that_load_programs_have_only_their_capabilities(directory: Path) -> None:
    """Loads begin while the agent has all privileges of its start, and last for seconds on a small machine."""
    seen: dict[str, list[int]] = {}
    slow = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=bpf", "-e", "inject=bpf:delay_enter=5000")
    with contextlib.closing(Agent(directory, "mode: observe", wrap=slow)) as one:

        def loads_have_ended() -> bool:
            for thread in Path(f"/proc/{one.pid}/task").iterdir():
                with contextlib.suppress(OSError):
                    bits = re.findall(r"^CapEff:\s*(\w+)", read(thread / "status"), re.M)[0]
                    seen.setdefault(thread.name, []).append(int(bits, 16))
            return bool(one.notified("READY=1"))

        until(loads_have_ended, "READY=1", every=0.002)
        seen.pop(str(one.pid))
        seen.pop(str(one.process.pid), None)
    few = sum(1 << bit for bit in CAPABILITIES.values())
    lasting = [bits[-1] for bits in seen.values() if len(bits) > 4]
    assert lasting and not any(bits & ~few for bits in lasting), [f"{bits:x}" for bits in lasting]
