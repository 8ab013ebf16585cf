# SPDX-License-Identifier: Apache-2.0
"""`headroom top` on a terminal, under load.

PICTURES=DIRECTORY keeps a picture: packaging/top.svg.
"""

import contextlib
import os
import threading
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
import storm
from conftest import Agent, Start, until
from dnslab import V4, Lab, fixture_lab, fixture_network, settle  # noqa: F401
from storm import space  # noqa: F401
from terminal import Terminal, picture, plain

UPSTREAM, CLUSTER = V4.format(53), V4.format(10)
# (cgroup of the client, queries a second, server, name)
LOAD = (
    ("system.slice/coredns.service", 150, UPSTREAM, "ok.example.test"),
    ("system.slice/backup.service", 20, UPSTREAM, "nx.example.test"),
    ("lxc.payload.web-1", 60, CLUSTER, "ok.shop.svc.cluster.local"),
    ("lxc.payload.web-2", 30, CLUSTER, "ok.shop.svc.cluster.local"),
    ("system.slice/kubelet.service", 5, CLUSTER, "ok.default.svc.cluster.local"),
)
CONFIG = f'dns: {{cluster_servers: [{CLUSTER}], budgets: [{{server: "{UPSTREAM}", qps: 200}}]}}\nruntime: {{mode: off}}\n'


@contextlib.contextmanager
def dns_load(lab: Lab, *load: tuple[str, int, str, str]) -> Iterator[None]:
    """Sends DNS queries as in LOAD within the context."""
    ending = threading.Event()
    clients = [(lab.udp(lab.cgroup(path)), *rest) for path, *rest in load]

    def ask(client: Any, rate: int, server: str, name: str) -> None:
        while not ending.wait(1 / rate):
            client.ask(server, name)

    threads = [threading.Thread(target=ask, args=args) for args in clients]
    try:
        for thread in threads:
            thread.start()
        yield
    finally:
        ending.set()
        for thread in threads:
            thread.join()
        for client, *_ in clients:
            client.socket.close()


@pytest.fixture(name="loaded")
def fixture_loaded(lab: Lab, agent: Start, space: Callable[..., storm.Space]) -> Iterator[Agent]:  # noqa: F811
    lab.server(UPSTREAM, CLUSTER)
    one = agent(CONFIG)
    until(lambda: one.status()["dns"], "the programs are loaded")
    place = space()
    with dns_load(lab, *LOAD):
        storm.fill(place, 5000)
        settle(one, lambda now: len(now.row(CLUSTER).get("top", [])) == 3 and now.row(UPSTREAM)["top"], "the load", 20)
        yield one


@pytest.mark.slow
def test_top_is_live_and_names_workloads_like_all_other_views(loaded: Agent, directory: Path) -> None:
    with contextlib.closing(Terminal(directory, "top", rows=60)) as terminal:
        screen = terminal.wait_screens(4)
        text = plain(screen)
        status = loaded.status()
        named = [user["workload"]["text"] for row in status["dns"]["servers"] for user in row["top"]]
        assert {"unit coredns.service", "lxd web-1", "unit kubelet.service"} <= set(named)
        for name in named:
            assert f"  {name}\n" in text, text
        assert "problems first; s sorts, q quits" in text and text.index(UPSTREAM) < text.index(CLUSTER)
        assert "netns hr-storm-0\n" in text, "the user of the neighbour table"
        labels = "".join(loaded.metrics())
        assert f'server="{CLUSTER}",kind="lxd",namespace="",name="web-1"' in labels
        if "PICTURES" in os.environ:
            (Path(os.environ["PICTURES"]) / "top.svg").write_text(picture(screen, "headroom top"))
        terminal.press("s")
        assert "by q/s; s sorts, q quits" in plain(terminal.wait_screens(len(terminal.screens()) + 2))
        terminal.press("q")
        assert terminal.process.wait(10) == 0
