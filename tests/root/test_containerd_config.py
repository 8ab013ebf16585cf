# SPDX-License-Identifier: Apache-2.0
"""What we change in containerd's configuration, as real containerds read it before and after.

Shapes of configurations are those of tests/unit/corpus/config.toml. containerd 1.6 is Debian's,
2.x is built by tests/tool/containerd2.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, ROOT

TOOL = BIN.parents[1] / "tests/tool/containerd_tool"
SHAPES = sorted(path.name for path in (ROOT / "tests/unit/corpus/config.toml").iterdir())
IMAGES = "plugins.'io.containerd.cri.v1.images'"
SETTINGS = {
    "containerd.max_concurrent_downloads": "10",
    "containerd.image_pull_progress_timeout": "30m",
    "containerd.registry.config_path": "/srv/certs.d",
}
# A shape with which 2.x does not start, whoever wrote it: it knows no byte order mark.
REFUSED_BY_2 = {"crlf-bom.toml"}
# Shapes whose settings are somebody else's, or have no effect.
UNSUPPORTED = {"k3s.toml", "docker-package.toml"}


@dataclass
class Containerd:
    program: Path
    version: str
    newest: int  # version of a configuration that it reads

    @property
    def is_1(self) -> bool:
        return self.version.startswith("1.")

    def refuses(self, shape: str) -> bool:
        return shape in REFUSED_BY_2 and not self.is_1

    def dump(self, config: Path) -> str | None:
        """None when containerd refuses the file."""
        answer = subprocess.run(
            [self.program, "-c", config, "config", "dump"], capture_output=True, text=True, timeout=60
        )
        return answer.stdout if answer.returncode == 0 else None


@pytest.fixture(scope="session", params=["debian", pytest.param("2", marks=pytest.mark.containerd2)])
def containerd(request: pytest.FixtureRequest) -> Containerd:
    if request.param == "debian":
        found = shutil.which("containerd")
        if not found:
            pytest.skip("Debian's containerd is not installed")
        program = Path(found)
    else:
        answer = subprocess.run([ROOT / "tests/tool/containerd2"], capture_output=True, text=True, timeout=1200)
        if answer.returncode == 77:
            pytest.skip(f"containerd2: {answer.stderr.strip()}")
        assert answer.returncode == 0, answer.stderr
        program = Path(answer.stdout.strip()) / "containerd"
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"\bv?(\d+\.\d+\.\S+)", told)
    assert version, told
    default = subprocess.run([program, "config", "default"], capture_output=True, text=True, check=True).stdout
    return Containerd(program, version.group(1), tomllib.loads(default)["version"])


def tool(*args: str | Path, status: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
    answer = subprocess.run([TOOL, *args], capture_output=True, text=True, timeout=60)
    assert answer.returncode in status, answer.stderr
    return answer


def plan(containerd: Containerd, main: Path, dump: Path, setting: str, verb: str = "plan") -> dict[str, str]:
    answer = tool(verb, "/", main, containerd.version, dump, setting, SETTINGS[setting])
    return {line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in answer.stdout.splitlines()}


def lay_out(directory: Path, shape: str) -> Path:
    """The shape as a main file, its imports moved to the same directory."""
    main = directory / "config.toml"
    text = (ROOT / "tests/unit/corpus/config.toml" / shape).read_bytes()
    main.write_bytes(re.sub(rb"/etc/containerd/(conf(ig)?\.d)/", str(directory).encode() + rb"/\1/", text))
    for name in ("conf.d", "config.d"):
        (directory / name).mkdir()
    return main


def files_of(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*.toml")}


def is_too_new(containerd: Containerd, shape: str) -> bool:
    text = (ROOT / "tests/unit/corpus/config.toml" / shape).read_bytes()
    return tomllib.loads(text.decode("utf-8-sig")).get("version", 1) > containerd.newest


def is_unsupported(containerd: Containerd, shape: str, setting: str) -> bool:
    if shape in UNSUPPORTED or is_too_new(containerd, shape):
        return True
    if setting == "containerd.registry.config_path" and shape == "gke-mirrors.toml":
        return True
    return containerd.version.startswith("1.6.") and setting == "containerd.image_pull_progress_timeout"


def apply(containerd: Containerd, directory: Path, main: Path, setting: str) -> dict[str, str]:
    """Sets it; the dump differs in it and in nothing else."""
    old, new = directory / "old.dump", directory / "new.dump"
    before = containerd.dump(main)
    assert before is not None
    old.write_text(before)
    edit = plan(containerd, main, old, setting, "apply")
    assert edit["method"] != "unsupported", edit["why"]
    after = containerd.dump(main)
    assert after is not None, f"containerd refuses {Path(edit['path']).read_text()}"
    new.write_text(after)
    assert tool("differs", old, new, edit["effective_path"]).stdout == ""
    table, key = edit["effective_path"].rsplit(".", 1)
    assert tool("get", new, table, key).stdout == SETTINGS[setting] + "\n"
    if SETTINGS[setting] not in before:
        assert tool("differs", old, new, status=(1,)).stdout.startswith(edit["effective_path"])
    return edit


def put_back(edit: dict[str, str], files: dict[str, bytes], directory: Path) -> None:
    """What was added is taken out, what was changed set back: every byte is as before."""
    path = Path(edit["path"])
    if edit["begin"] == "1":
        path.unlink()
    else:
        original = directory / "original"
        original.write_bytes(files[str(path.relative_to(directory))])
        found = tool("literal", original, edit["table"], edit["key"], status=(0, 2))
        assert (found.returncode == 0) == is_in(original.read_bytes(), edit)
        if found.returncode == 0:
            tool("set", path, edit["table"], edit["key"], found.stdout)
        else:
            tool("remove", path, edit["table"], edit["key"])
    assert files_of(directory) == files


def is_in(text: bytes, edit: dict[str, str]) -> bool:
    """As the parser in Python's library has it."""
    table: Any = tomllib.loads(text.decode("utf-8-sig"))
    for quoted, bare in re.findall(r'"([^"]*)"|([^."]+)', f"{edit['table']}.{edit['key']}"):
        table = table.get(quoted or bare) if isinstance(table, dict) else None
    return table is not None


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("shape", SHAPES)
def test_only_our_key_changes(containerd: Containerd, tmp_path: Path, shape: str, setting: str) -> None:
    main = lay_out(tmp_path, shape)
    files = files_of(tmp_path)
    if containerd.refuses(shape):
        assert containerd.dump(main) is None
        return
    if is_unsupported(containerd, shape, setting):
        dump = tmp_path / "dump"
        dump.write_text(containerd.dump(main) or "")
        edit = plan(containerd, main, dump, setting, "apply")
        assert edit["method"] == "unsupported" and edit["why"]
        assert files_of(tmp_path) == files
        return
    put_back(apply(containerd, tmp_path, main, setting), files, tmp_path)


@pytest.mark.parametrize("shape", [s for s in SHAPES if s not in UNSUPPORTED])
def test_all_settings_together(containerd: Containerd, tmp_path: Path, shape: str) -> None:
    if containerd.refuses(shape) or is_too_new(containerd, shape):
        return
    main = lay_out(tmp_path, shape)
    files = files_of(tmp_path)
    done: list[tuple[dict[str, str], dict[str, bytes]]] = []
    for setting in SETTINGS:
        if not is_unsupported(containerd, shape, setting):
            now = files_of(tmp_path)
            done.append((apply(containerd, tmp_path, main, setting), now))
    for edit, before in reversed(done):
        put_back(edit, before, tmp_path)
    assert files_of(tmp_path) == files


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_main_file_that_is_made(containerd: Containerd, tmp_path: Path, setting: str) -> None:
    if is_unsupported(containerd, "empty.toml", setting):
        return
    main = tmp_path / "config.toml"
    main.write_text("version = 2\n")
    old = tmp_path / "old.dump"
    old.write_text(containerd.dump(main) or "")
    main.unlink()
    edit = plan(containerd, main, old, setting, "apply")
    assert edit["begin"] == "1" and Path(edit["path"]) == main
    new = tmp_path / "new.dump"
    new.write_text(containerd.dump(main) or "")
    assert tool("differs", old, new, edit["effective_path"]).stdout == ""


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_file_of_our_own_beside_any_version(containerd: Containerd, tmp_path: Path, version: int) -> None:
    """It merges, also with a main file of an older version, whose CRI section stays."""
    if containerd.is_1 or version > containerd.newest:
        return
    if version == 1 and containerd.newest == 3:
        return  # 2.0 to 2.2 do not read the CRI section of such a file, with or without ours
    main = tmp_path / "config.toml"
    table = {1: "plugins.cri", 2: "plugins.'io.containerd.grpc.v1.cri'"}
    main.write_text(
        f"{f'version = {version}' if version > 1 else ''}\nimports = ['{tmp_path}/conf.d/*.toml']\n"
        f"[{table.get(version, IMAGES.replace('images', 'runtime'))}.containerd.runtimes.runc.options]\n"
        "SystemdCgroup = true\n"
    )
    (tmp_path / "conf.d").mkdir()
    for setting in SETTINGS:
        edit = apply(containerd, tmp_path, main, setting)
        assert edit["path"] == f"{tmp_path}/conf.d/99-headroom.toml"
    dump = containerd.dump(main)
    assert dump and "SystemdCgroup = true" in dump


def test_the_dry_run_of_a_file_of_our_own(containerd: Containerd, tmp_path: Path) -> None:
    """A second main file that imports the new one last reads as the real one will."""
    if containerd.is_1:
        return
    main = lay_out(tmp_path, "config-default-2.toml")
    trial, drop_in = tmp_path / ".trial.toml", tmp_path / "new.toml"
    drop_in.write_text("[plugins.'io.containerd.transfer.v1.local']\nmax_concurrent_downloads = 10\n")
    trial.write_text(tool("trial", "", main, drop_in).stdout)
    tried = containerd.dump(trial)
    (tmp_path / "conf.d/99-headroom.toml").write_bytes(drop_in.read_bytes())
    real = containerd.dump(main)
    assert tried and real
    (tmp_path / "tried").write_text(tried)
    (tmp_path / "real").write_text(real)
    assert tool("differs", tmp_path / "tried", tmp_path / "real").stdout == ""


def test_a_section_of_an_import_is_the_one_that_counts_in_1(containerd: Containerd, tmp_path: Path) -> None:
    if not containerd.is_1:
        return
    main = lay_out(tmp_path, "eks-al2.toml")
    other = tmp_path / "config.d/99-nvidia.toml"
    other.write_text(
        "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd]\n  default_runtime_name = 'nvidia'\n"
    )
    files = files_of(tmp_path)
    edit = apply(containerd, tmp_path, main, "containerd.max_concurrent_downloads")
    assert edit["path"] == str(other)
    put_back(edit, files, tmp_path)


def test_a_conf_d_that_the_main_file_does_not_name_is_not_read(containerd: Containerd, tmp_path: Path) -> None:
    """What 2.2 and later print as the default of imports is not followed: so we do not rely on it."""
    main = tmp_path / "config.toml"
    main.write_text("version = 2\n")
    old = tmp_path / "old.dump"
    old.write_text(containerd.dump(main) or "")
    edit = plan(containerd, main, old, "containerd.max_concurrent_downloads")
    assert edit["method"] == "in-place" and edit["path"] == str(main)
    script = (
        "mkdir -p /etc/containerd && mount -t tmpfs none /etc/containerd && mkdir /etc/containerd/conf.d && "
        "printf 'root = \"/srv/elsewhere\"\\n' >/etc/containerd/conf.d/x.toml && "
        "printf 'version = 2\\n' >/etc/containerd/config.toml && exec \"$0\" config dump"
    )
    answer = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, containerd.program], capture_output=True, text=True, timeout=60
    )
    assert answer.returncode == 0, answer.stderr
    assert "/srv/elsewhere" not in answer.stdout and "/var/lib/containerd" in answer.stdout
