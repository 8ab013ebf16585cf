# SPDX-License-Identifier: Apache-2.0
"""One writer at a time."""

import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import THRESHOLDS, Node, sysctl


@pytest.mark.quick
def test_the_second_agent_says_who_holds_the_lock(agent) -> None:
    one = agent()
    two = agent(ready=False, name="second")
    assert two.process.wait(10) == 1
    assert str(one.pid) in two.log
    assert "lock" in two.log
    assert not two.notified("READY=1")
    assert one.process.poll() is None
    assert one.get("/livez")[0] == 200


def test_the_lock_of_a_killed_agent_is_free(agent) -> None:
    agent().kill()
    assert agent(name="second").get("/readyz")[0] == 200


def test_commands_without_an_agent_wait_for_or_name_each_other(node: Node, run) -> None:
    """Several at once: each does its work or says why not, and the node is whole afterwards."""
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: run(("apply", "restore")[i % 2]), range(16)))
    for answer in answers:
        assert answer.returncode in (0, 1)
        assert answer.returncode == 0 or "lock" in answer.stderr
    assert run("restore").returncode == 0
    node.assert_unchanged()


def test_the_socket_is_for_root_only(agent, directory) -> None:
    one = agent()
    assert one.socket_path.stat().st_mode & 0o777 == 0o600
    one.socket_path.chmod(0o666)  # even where the file lets everyone in
    (directory / "run").chmod(0o755)
    script = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        "s.sendall(b'POST /v1/restore HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 0\\r\\n\\r\\n');"
        "print(s.recv(4096).decode())"
    )
    answer = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", script, one.socket_path],
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert " 200 " not in answer.stdout.split("\n")[0]
    assert sysctl(THRESHOLDS[2]) == "100000"
