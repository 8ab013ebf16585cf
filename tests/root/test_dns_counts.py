# SPDX-License-Identifier: Apache-2.0
"""The DNS programs attached, beside clients and servers that know what they sent (tests/tool/dns_live.c)."""

import subprocess
from pathlib import Path

import pytest
from conftest import BIN


def live(*args: int) -> None:
    tool = Path(BIN).resolve().parents[1] / "tests/tool/dns_live"
    done = subprocess.run([tool, *map(str, args)], capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith("ok ")] == []
    assert len(lines) >= 20 and done.returncode == 0, done.stderr


@pytest.mark.quick
def test_datagrams_and_streams_are_counted_however_cut() -> None:
    live()


def test_a_million_queries_at_full_speed_are_all_counted() -> None:
    live(500_000, 2)
