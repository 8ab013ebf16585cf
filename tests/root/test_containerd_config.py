# SPDX-License-Identifier: Apache-2.0
"""Edits of containerd's configuration, compared by what real containerds read before and after.

The shapes are in tests/unit/corpus/config.toml. containerd 1.6 is Debian's. tests/tool/containerd2 builds 2.x.
"""

import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, ROOT
from runtimelab import containerd2

TOOL = BIN.parents[1] / "tests/tool/containerd_tool"
SHAPES = sorted(path.name for path in (ROOT / "tests/unit/corpus/config.toml").iterdir())
IMAGES = "plugins.'io.containerd.cri.v1.images'"
TRANSFER = "plugins.'io.containerd.transfer.v1.local'"
SETTINGS = {
    "containerd.max_concurrent_downloads": "10",
    "containerd.image_pull_progress_timeout": "30m0s",
    "containerd.registry.config_path": "/srv/certs.d",
}
# 2.x refuses a byte order mark.
REFUSED_BY_2 = {"crlf-bom.toml"}
# Here the settings belong to another program, or have no effect.
UNSUPPORTED = {"k3s.toml", "docker-package.toml"}
# Keys of inline tables are not edited. 2.x accepts some of them in a separate table.
UNUSUAL = {"inline.toml"}


@dataclass
class Containerd:
    program: Path
    version: str
    newest: int  # newest version of a configuration that it reads

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
    program = containerd2() / "containerd" if request.param == "2" else Path("/usr/bin/containerd")

    def ask(*args: str) -> str:
        return subprocess.run([program, *args], capture_output=True, text=True, check=True).stdout

    version = re.search(r"\bv?(\d+\.\d+\.\S+)", ask("--version"))
    assert version
    return Containerd(program, version.group(1), tomllib.loads(ask("config", "default"))["version"])


def tool(*args: str | Path, status: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
    answer = subprocess.run([TOOL, *args], capture_output=True, text=True, timeout=60)
    assert answer.returncode in status, answer.stdout + answer.stderr
    return answer


def try_edit(containerd: Containerd, main: Path, setting: str, value: str = "") -> dict[str, str]:
    args = (main, containerd.program, containerd.version, setting, value or SETTINGS[setting])
    answer = tool("apply", *args, status=(0, 1))
    edit = {line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in answer.stdout.splitlines()}
    assert ("why" in edit) == (answer.returncode == 1)
    return edit


def lay_out(directory: Path, shape: str) -> Path:
    """Writes the shape as a main file, and moves its imports to the same directory."""
    main = directory / "config.toml"
    text = (ROOT / "tests/unit/corpus/config.toml" / shape).read_bytes()
    main.write_bytes(re.sub(rb"/etc/containerd/(conf(ig)?\.d)/", str(directory).encode() + rb"/\1/", text))
    for name in ("conf.d", "config.d"):
        (directory / name).mkdir()
    return main


def files_of(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def is_too_new(containerd: Containerd, shape: str) -> bool:
    text = (ROOT / "tests/unit/corpus/config.toml" / shape).read_bytes()
    return tomllib.loads(text.decode("utf-8-sig")).get("version", 1) > containerd.newest


def is_unsupported(containerd: Containerd, shape: str, setting: str) -> bool:
    if shape in UNSUPPORTED or is_too_new(containerd, shape):
        return True
    if setting == "containerd.registry.config_path" and shape == "gke-mirrors.toml":
        return True
    return containerd.version.startswith("1.6.") and setting == "containerd.image_pull_progress_timeout"


def without(dump: str, name: str) -> tuple[Any, Any]:
    """The parsed dump without a key, and the value of the key."""
    tree: Any = tomllib.loads(dump)
    tree.pop("imports", None)
    *way, key = [quoted or bare for quoted, bare in re.findall(r'"([^"]*)"|([^."]+)', name)]
    table = tree
    for part in way:
        table = table.get(part, {})
    return tree, table.pop(key, None)


def apply(containerd: Containerd, main: Path, setting: str, value: str = "") -> dict[str, str]:
    """Sets it; the dump differs in it and in nothing else."""
    before = containerd.dump(main)
    edit = try_edit(containerd, main, setting, value)
    assert "why" not in edit, edit["why"]
    after = containerd.dump(main)
    assert after is not None, f"containerd refuses {Path(edit['path']).read_text()}"
    tree, new = without(after, edit["dump_key"])
    assert str(new) == (value or SETTINGS[setting])
    if before is not None:
        old_tree, old = without(before, edit["dump_key"])
        assert tree == old_tree
        assert edit["on_disk"] == str(old) or old == ""
    return edit


def put_back(edit: dict[str, str], files: dict[str, bytes], directory: Path) -> None:
    """Undoes the edit. All bytes are as before."""
    path = Path(edit["path"])
    if edit["made"] == "1":
        path.unlink()
    else:
        original = directory / "original"
        original.write_bytes(files[str(path.relative_to(directory))])
        tool("undo", path, original, edit["table"], edit["key"])
        original.unlink()
    assert files_of(directory) == files


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("shape", SHAPES)
def test_only_our_key_changes(containerd: Containerd, tmp_path: Path, shape: str, setting: str) -> None:
    main = lay_out(tmp_path, shape)
    files = files_of(tmp_path)
    if containerd.refuses(shape):
        assert containerd.dump(main) is None
        assert "refuses" in try_edit(containerd, main, setting)["why"]
    elif is_unsupported(containerd, shape, setting):
        assert try_edit(containerd, main, setting)["why"]
    elif shape in UNUSUAL and "why" in try_edit(containerd, main, setting):
        pass
    else:
        main.write_bytes(files["config.toml"])
        put_back(apply(containerd, main, setting), files, tmp_path)
    assert files_of(tmp_path) == files


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_missing_main_file_is_created(containerd: Containerd, tmp_path: Path, setting: str) -> None:
    if is_unsupported(containerd, "empty.toml", setting):
        return
    main = tmp_path / "config.toml"
    edit = try_edit(containerd, main, setting)
    assert edit["made"] == "1" and Path(edit["path"]) == main
    dump = containerd.dump(main)
    assert dump and str(without(dump, edit["dump_key"])[1]) == SETTINGS[setting]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_drop_in_file_merges_with_any_version(containerd: Containerd, tmp_path: Path, version: int) -> None:
    """The CRI section of an older main file stays in force."""
    if containerd.is_1 or version > containerd.newest:
        return
    if version == 1 and containerd.newest == 3:
        return  # 2.0 to 2.2 ignore the CRI section of such a file
    main = tmp_path / "config.toml"
    table = {1: "plugins.cri", 2: "plugins.'io.containerd.grpc.v1.cri'"}
    main.write_text(
        f"{f'version = {version}' if version > 1 else ''}\nimports = ['{tmp_path}/conf.d/*.toml']\n"
        f"[{table.get(version, IMAGES.replace('images', 'runtime'))}.containerd.runtimes.runc.options]\n"
        "SystemdCgroup = true\n"
    )
    (tmp_path / "conf.d").mkdir()
    for setting in SETTINGS:
        edit = apply(containerd, main, setting)
        assert edit["path"] == f"{tmp_path}/conf.d/99-headroom.toml"
    dump = containerd.dump(main)
    assert dump and "SystemdCgroup = true" in dump


IMPORTS = {  # name: (the main file's imports, files beside it, the edited file)
    "two patterns": ("'{}/config.d/*.toml', '{}/conf.d/*.toml'", {}, "conf.d/99-headroom.toml"),
    "a directory that is not there": ("'{}/none.d/*.toml', '{}/conf.d/*'", {"conf.d/10-a.toml": ""}, "conf.d/99-headroom.toml"),
    "nested": ("'base.toml'", {"base.toml": "imports = ['conf.d/*.toml']\n", "conf.d/10-a.toml": "oom_score = 0\n"}, "conf.d/99-headroom.toml"),
    "a nested file with the key": (
        "'base.toml'", {"base.toml": "imports = ['conf.d/*.toml']\n", "conf.d/99-z.toml": f"[{TRANSFER}]\nmax_concurrent_downloads = 4\n"}, "conf.d/99-z.toml",
    ),
    "directories": ("'{}/*.d/*/*.toml'", {"x.d/y/1.toml": f"[{TRANSFER}]\nmax_concurrent_downloads = 4\n"}, "x.d/y/1.toml"),
}  # fmt: skip


@pytest.mark.parametrize("shape", IMPORTS)
def test_imports_of_any_shape_are_followed(containerd: Containerd, tmp_path: Path, shape: str) -> None:
    if containerd.is_1:
        return
    imports, files, edited = IMPORTS[shape]
    main = tmp_path / "config.toml"
    main.write_text(f"version = 2\nimports = [{imports.replace('{}', str(tmp_path))}]\n")
    for directory in ("config.d", "conf.d"):
        (tmp_path / directory).mkdir()
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    before = files_of(tmp_path)
    edit = apply(containerd, main, "containerd.max_concurrent_downloads")
    changed = apply(containerd, main, "containerd.max_concurrent_downloads", "12")
    assert edit["path"] == changed["path"] == str(tmp_path / edited)
    put_back(edit, before, tmp_path)


def edits(containerd: Containerd, main: Path, file: Path, text: str) -> None:
    """The edit goes to this file, which has this text."""
    file.write_text(text)
    files = files_of(main.parent)
    edit = apply(containerd, main, "containerd.max_concurrent_downloads")
    assert edit["path"] == str(file)
    put_back(edit, files, main.parent)


def test_the_last_file_that_sets_the_key_is_edited(containerd: Containerd, tmp_path: Path) -> None:
    main = lay_out(tmp_path, "version-4.toml" if containerd.newest > 3 else "eks-al2.toml")
    later = tmp_path / ("conf.d" if containerd.newest > 3 else "config.d") / "zz-site.toml"
    table = "io.containerd.grpc.v1.cri" if containerd.is_1 else "io.containerd.transfer.v1.local"
    version = "version = 2" if containerd.is_1 else ""
    edits(containerd, main, later, f"{version}\n[plugins.'{table}']\nmax_concurrent_downloads = 4\n")


def test_containerd_1_is_edited_in_an_import_that_has_the_section(containerd: Containerd, tmp_path: Path) -> None:
    if containerd.is_1:
        text = "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd]\n  default_runtime_name = 'nvidia'\n"
        edits(containerd, lay_out(tmp_path, "eks-al2.toml"), tmp_path / "config.d/99-nvidia.toml", text)


def test_an_escaped_table_name_never_leads_to_a_wrong_edit(containerd: Containerd, tmp_path: Path) -> None:
    """If the table is not found, a new table has the same effect, or the file stays as it is."""
    main = tmp_path / "config.toml"
    name = "io.containerd.grpc.v1.cri" if containerd.is_1 else "io.containerd.cri.v1.images"
    main.write_text(
        f'version = {2 if containerd.is_1 else 3}\n[plugins."{name[:-1]}\\u{ord(name[-1]):04x}"]\n'
        "max_concurrent_downloads = 4\n"
    )
    files = files_of(tmp_path)
    if "why" in try_edit(containerd, main, "containerd.max_concurrent_downloads"):
        assert files_of(tmp_path) == files
        return
    main.write_bytes(files["config.toml"])
    put_back(apply(containerd, main, "containerd.max_concurrent_downloads"), files, tmp_path)


def test_a_broken_file_is_named_and_left_alone(containerd: Containerd, tmp_path: Path) -> None:
    main = tmp_path / "config.toml"
    main.write_text("version = 2\nroot = [1, '2\n']\n")
    why = try_edit(containerd, main, "containerd.max_concurrent_downloads")["why"]
    assert why.startswith(f"{main}:2:12: ") and "left alone" in why
    main.write_text("version = 2\nroot = 5\n")
    why = try_edit(containerd, main, "containerd.max_concurrent_downloads")["why"]
    assert "refuses" in why and str(main) in why


def test_the_agent_does_not_rely_on_the_default_imports(containerd: Containerd, tmp_path: Path) -> None:
    """containerd 2.2 and later print a default of imports, but ignore it."""
    main = tmp_path / "config.toml"
    main.write_text("version = 2\n")
    edit = apply(containerd, main, "containerd.max_concurrent_downloads")
    assert edit["path"] == str(main)
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
