# SPDX-License-Identifier: Apache-2.0
"""Loading, pulling and cleaning of images by the calls of the agent, with real runtimes."""

import contextlib
import gzip
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Iterator

import pytest
from conftest import ASAN, BIN, SLACK, Run, free_port, killed_at_each_change, until
from imagelab import DOCKER, Built, Image, Layout, digest, docker_files, docker_save, is_fetched_from, say_program, write_tar
from runtimelab import Lab, containerd2, own_lab

TOOL = BIN.parents[1] / "tests/tool/images_tool"
CONTAINERD2 = pytest.param("containerd2", marks=pytest.mark.containerd2)
CONTAINERDS = pytest.mark.parametrize("runtime", ["containerd", CONTAINERD2], indirect=True)
ALL = pytest.mark.parametrize("runtime", ["containerd", CONTAINERD2, "docker"], indirect=True)
MIB = 1 << 20


class Runtime:
    def __init__(self, lab: Lab, kind: str) -> None:
        self.lab, self.docker = lab, kind == "docker"
        lab.start(kind)
        self.programs = containerd2() if kind == "containerd2" else None
        self.ctr_command = [str(self.programs / "ctr") if self.programs else "ctr", "-n", "k8s.io"]
        self.spool = lab.directory / "spool"
        self.spool.mkdir()
        self.say = say_program(lab.directory)
        self.registry = lab.registry()

    def restart(self, config: str) -> None:
        self.lab.config.write_text(config)
        self.lab.daemons["containerd"].stop()
        self.lab.daemons["containerd"].start()
        self.lab.wait_for_cri()

    def command(self, *args: str, seconds: int = 60) -> list[str]:
        where = ["docker", "/run/docker.sock"] if self.docker else ["containerd", "/run/containerd/containerd.sock"]
        return [*self.lab.wrap, str(TOOL), *where, str(int(seconds * SLACK)), *args]

    def start(self, *args: str, seconds: int = 60) -> "subprocess.Popen[str]":
        command = self.command(*args, seconds=seconds)
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *args: str, seconds: int = 60) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(self.command(*args, seconds=seconds), capture_output=True, text=True, timeout=300)

    def good(self, *args: str) -> str:
        done = self.run(*args)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def bad(self, *args: str, seconds: int = 60) -> str:
        done = self.run(*args, seconds=seconds)
        assert done.returncode == 1, done.stdout + done.stderr
        return done.stderr

    def load(self, archive: Path) -> list[str]:
        return ["load", str(archive), str(self.spool)]

    def images(self) -> dict[str, str]:
        """name -> id."""
        return dict(line.split()[:2] for line in self.good("list").splitlines())

    def ctr(self, *args: str) -> str:
        return self.lab.run(*self.ctr_command, *args)

    def assert_says(self, name: str, text: str) -> None:
        """Runs the image, which prints the text."""
        if not self.docker:
            assert self.ctr("run", "--rm", name, f"run-{random.randrange(10**9)}").strip() == text
            return
        code, answer = self.lab.docker("POST", "/containers/create", {"Image": name, "NetworkDisabled": True})
        assert code == 201, answer
        container = answer.split('"')[3]
        assert self.lab.docker("POST", f"/containers/{container}/start")[0] == 204
        assert self.lab.docker("POST", f"/containers/{container}/wait")[0] == 200
        # dockerd may still copy the output of a container that has ended.
        until(lambda: text in self.lab.docker("GET", f"/containers/{container}/logs?stdout=1")[1], f"{name} says {text}")
        assert self.lab.docker("DELETE", f"/containers/{container}?force=1")[0] == 204

    def remove_all(self) -> None:
        for name in self.ctr("images", "ls", "-q").split():
            self.ctr("images", "rm", "--sync", name)

    def left(self) -> dict[str, list[str]]:
        """Names, leases and ingests that a load must not leave."""
        return {
            "names": [name for name in self.ctr("images", "ls", "-q").split() if "headroom" in name],
            "leases": self.ctr("leases", "ls", "-q").split(),
            "ingests": self.ctr("content", "active").splitlines()[1:],
        }

    def assert_nothing_left(self) -> None:
        """The end of a lease starts garbage collection, which removes ingests."""
        until(lambda: self.docker or not any(self.left().values()), lambda: str(self.left()), 0.1)


@pytest.fixture(scope="module")
def runtime(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    """One runtime of each kind for all tests. They use different images."""
    with own_lab() as lab:
        yield Runtime(lab, request.param)


def name(short: str) -> str:
    return f"docker.io/library/{short}:1"


@ALL
def test_a_name_that_others_move_during_a_load_stays_theirs(runtime: Runtime) -> None:
    there = runtime.lab.directory
    runtime.good(*runtime.load(docker_save(there / "theirs.tar", [Built(name("theirs"))])))
    archive = docker_save(there / "contested.tar", [Built(name("contested"), size=200_000_000)])
    load = runtime.start(*runtime.load(archive))
    until(lambda: is_fetched_from(load.pid), "the runtime fetches it", 0.005)
    if runtime.docker:
        assert runtime.lab.docker("POST", "/images/theirs:1/tag?repo=contested&tag=1")[0] == 201
    else:
        runtime.ctr("images", "tag", name("theirs"), name("contested"))
    assert "EREMCHG: others gave docker.io/library/contested:1" in load.communicate()[1] and load.returncode == 1
    assert runtime.images()[name("contested")] == runtime.images()[name("theirs")]
    runtime.assert_nothing_left()
    runtime.good(*runtime.load(archive))
    assert runtime.images()[name("contested")] != runtime.images()[name("theirs")], "the next load knows of it"


@ALL
def test_archives_of_all_formats_become_images_that_run(runtime: Runtime) -> None:
    images = []

    def built(form: str) -> Built:
        images.append(Built(name(form), f"this is {form}", runtime.say))
        return images[-1]

    there = runtime.lab.directory
    archives = [
        docker_save(there / "plain.tar", [built("plain")]),
        docker_save(there / "a.tar.gz", [built("gz")], "gzip"),
        docker_save(there / "a.tar.zst", [built("zst")], "zstd"),
        docker_save(there / "layers.tar", [built("layers")], "", "gzip"),
        docker_save(there / "several.tar", [built("one"), built("two")]),
        Layout().add(built("oci")).write_tar(there / "oci.tar"),
        Layout().add(built("oci-plain"), "").write_tar(there / "oci.tgz", "gzip"),
        # Docker 20.10 does not support zstd layers.
        Layout().add(built("directory"), "gzip" if runtime.docker else "zstd").write_directory(there / "layout"),
        Layout().add_index(built("multi")).write_tar(there / "multi.tar"),
        Layout().add_index(built("nested"), nested=True).write_tar(there / "nested.tar"),
    ]
    for archive in archives:
        runtime.good(*runtime.load(archive))
    listed = runtime.images()
    for image in images:
        assert listed[image.name] == image.id
        runtime.assert_says(image.name, image.text)
    runtime.assert_nothing_left()


@CONTAINERDS
def test_a_loaded_image_has_the_names_of_a_pulled_one(runtime: Runtime) -> None:
    old, new = (Built(name("app"), text, runtime.say) for text in ("old", "new"))
    runtime.good(*runtime.load(docker_save(runtime.lab.directory / "old.tar", [old])))
    runtime.good(*runtime.load(docker_save(runtime.lab.directory / "new.tar", [new])))
    assert runtime.images()[new.name] == new.id
    digests = [one for one, id_ in runtime.images().items() if "@sha256:" in one and id_ == new.id]
    assert [one.split("@")[0] for one in digests] == ["docker.io/library/app"]
    runtime.assert_says(new.name, "new")
    runtime.assert_says(new.id, "new")


@pytest.mark.parametrize("runtime", ["docker"], indirect=True)
def test_docker_gives_a_digest_a_tag_and_a_later_pull_fetches_no_layer(runtime: Runtime) -> None:
    """Docker stores a name with a digest only after a pull from the registry itself."""
    proxy = runtime.lab.proxy(runtime.registry)
    image = Image(2, MIB, {"say": runtime.say}, ["/say", "by digest"])
    runtime.registry.push("team/digest", image)
    manifest = manifest_of(runtime.registry.port, "team/digest")
    layout = Layout()
    layers = json.loads(manifest)["layers"]
    for data in (manifest, image.config, *(gzip.compress(tar, 1, mtime=0) for tar in image.tars)):
        layout.blob("", data)
    assert all(layer["digest"] in layout.blobs for layer in layers)
    wanted = f"{proxy.name}/team/digest@{digest(manifest)}"
    entry = {"mediaType": DOCKER, "digest": digest(manifest), "size": len(manifest)}
    layout.manifests.append({**entry, "annotations": {"io.containerd.image.name": wanted}})
    runtime.good(*runtime.load(layout.write_tar(runtime.lab.directory / "digest.tar")))
    assert runtime.images()[wanted] == image.id
    runtime.assert_says(f"{proxy.name}/team/digest:{digest(manifest).replace(':', '-')}", "by digest")
    runtime.good("pull", wanted)
    assert not proxy.blobs
    runtime.assert_says(wanted, "by digest")


def manifest_of(port: int, repository: str) -> bytes:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v2/{repository}/manifests/latest", headers={"Accept": DOCKER})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return bytes(answer.read())


@ALL
def test_a_damaged_archive_fails_and_leaves_nothing(runtime: Runtime) -> None:
    image = Built(name("bad"), "bad", runtime.say, 3, 2 * MIB)
    files = docker_files([image])
    layer, data = next(iter(files.items()))
    wrong = {**files, layer: data[:MIB] + bytes([data[MIB] ^ 1]) + data[MIB + 1 :]}
    whole = docker_save(runtime.lab.directory / "whole.tar", [image]).read_bytes()
    (runtime.lab.directory / "torn.tar").write_bytes(whole[: len(whole) // 2])
    write_tar(runtime.lab.directory / "wrong.tar", wrong)
    assert runtime.bad(*runtime.load(runtime.lab.directory / "wrong.tar"))
    assert runtime.bad(*runtime.load(runtime.lab.directory / "torn.tar")).startswith("EBADMSG")
    assert image.name not in runtime.images()
    runtime.assert_nothing_left()
    runtime.good(*runtime.load(runtime.lab.directory / "whole.tar"))
    runtime.assert_says(image.name, "bad")


@ALL
def test_content_that_is_not_that_of_its_digest_is_refused(runtime: Runtime) -> None:
    there, wrong = runtime.lab.directory, f"registry.example/team/app@{digest(b'another')}"
    image = Built(wrong)
    for archive in (Layout().add(image).write_tar(there / "oci.tar"), docker_save(there / "saved.tar", [image])):
        assert "its content is not that of its name" in runtime.bad(*runtime.load(archive))
    assert not [one for one in runtime.images() if "team/app" in one]


def port_of(pid: int) -> int:
    """The TCP port on which the process listens, or 0."""
    with contextlib.suppress(FileNotFoundError):  # a descriptor that was closed meanwhile
        links = {os.readlink(one) for one in Path(f"/proc/{pid}/fd").iterdir()}
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return next((int(row[1][9:], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in links), 0)
    return 0


@ALL
def test_other_processes_cannot_read_an_archive_that_is_being_loaded(runtime: Runtime) -> None:
    """They may know the port, the image's name and its digests: /v1/status shows them to everybody."""
    image = Built(name("guarded"), "guarded", runtime.say, 3, 4 * MIB)
    archive = docker_save(runtime.lab.directory / "guarded.tar", [image])
    daemon = runtime.lab.daemons["dockerd" if runtime.docker else "containerd"]
    process = runtime.start(*runtime.load(archive))
    port = until(lambda: port_of(process.pid), every=0.001)
    daemon.signal(signal.SIGSTOP)
    try:
        for path in (f"headroom-preload/{digest(image.name.encode())[7:]}", "headroom-preload", image.name[:-2]):
            for what in (f"blobs/{image.id}", f"blobs/{digest(image.tars[0])}"):
                with pytest.raises(urllib.error.HTTPError, match="404"):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/{path}/{what}", timeout=10)
    finally:
        daemon.signal(signal.SIGCONT)
    assert process.communicate()[1] == ""
    runtime.assert_says(image.name, "guarded")


@CONTAINERDS
def test_clean_removes_only_names_and_leases_of_headroom(runtime: Runtime) -> None:
    image = Built(name("kept"), "kept", runtime.say)
    runtime.good(*runtime.load(docker_save(runtime.lab.directory / "kept.tar", [image])))
    runtime.ctr("images", "tag", image.name, f"127.0.0.1:1/headroom-preload/{'0' * 64}:left")
    runtime.ctr("leases", "create", "--id", "headroom-preload-left")
    runtime.ctr("leases", "create", "--id", "other")
    assert any("headroom-preload" in one for one in runtime.images())
    runtime.good("clean")
    assert runtime.left() == {"names": [], "leases": ["other"], "ingests": []}
    runtime.ctr("leases", "rm", "other")
    runtime.assert_says(image.name, "kept")


@CONTAINERDS
def test_a_load_works_with_a_default_mirror_or_server(runtime: Runtime) -> None:
    before = runtime.lab.config.read_text()
    table = "'io.containerd.cri.v1.images'" if runtime.programs else '"io.containerd.grpc.v1.cri"'
    config = f"version = {3 if runtime.programs else 2}\n[plugins.{table}.registry]\nconfig_path = '/etc/containerd/%s'\n"
    mirror = f'[host."http://127.0.0.1:{free_port()}"]\n'
    server = f'server = "http://{runtime.registry.name}"\n[host."http://{runtime.registry.name}"]\n'
    hole = socket.create_server(("127.0.0.1", 0))  # accepts, and never answers
    silent = f'[host."http://127.0.0.1:{hole.getsockname()[1]}"]\n'
    image = Built(name("mirrored"), "mirrored", runtime.say)
    load = runtime.load(docker_save(runtime.lab.directory / "mirrored.tar", [image]))
    try:
        runtime.restart(config % "certs.d")
        for hosts in (mirror, server, silent):
            runtime.lab.write("etc/containerd/certs.d/_default/hosts.toml", hosts)
            runtime.good(*load)
            runtime.assert_says(image.name, "mirrored")
            runtime.remove_all()
            assert os.listdir(runtime.lab.certs) == ["_default"]
        runtime.lab.write("etc/containerd/elsewhere/_default/hosts.toml", server)
        runtime.restart(config % "elsewhere")
        assert "_default/hosts.toml" in runtime.bad(*load)
    finally:
        hole.close()
        shutil.rmtree(runtime.lab.certs)
        runtime.restart(before)


@pytest.mark.skipif(ASAN, reason="the leak sanitizer does not work under strace")
@pytest.mark.parametrize("runtime", ["containerd"], indirect=True)
def test_restore_leaves_no_file_of_a_load_that_was_killed_at_any_change(runtime: Runtime, run: Run, directory: Path) -> None:
    before, lab = runtime.lab.config.read_text(), runtime.lab
    archive = docker_save(lab.directory / "killed.tar", [Built(name("killed"), layers=1, size=1000)])
    state = directory / "state"
    written = 0

    def load(prefix: tuple[str, ...]) -> int:
        command = runtime.command("load", str(archive), str(state))
        command[len(lab.wrap):len(lab.wrap)] = prefix
        return subprocess.run(command, capture_output=True, timeout=300).returncode

    lab.write("etc/containerd/certs.d/_default/hosts.toml", f'server = "http://{runtime.registry.name}"\n[host."http://{runtime.registry.name}"]\n')
    state.mkdir(exist_ok=True)
    try:
        runtime.restart('version = 2\n[plugins."io.containerd.grpc.v1.cri".registry]\nconfig_path = "/etc/containerd/certs.d"\n')
        for moment in killed_at_each_change(load):
            written += (lab.certs / "headroom.invalid/hosts.toml").exists()
            restored = run("restore", wrap=lab.wrap)
            assert restored.returncode == 0, (moment, restored)
            assert os.listdir(lab.certs) == ["_default"], moment
            runtime.good("clean")
        assert written > 1, "some kills came after the write"
    finally:
        shutil.rmtree(lab.certs)
        runtime.restart(before)
        runtime.remove_all()


@CONTAINERDS
def test_no_other_server_is_blamed_when_containerd_refuses_content_that_it_has(runtime: Runtime) -> None:
    """It asks for no blob then."""
    image = Built(name("refused"))
    image.config = image.config.replace(digest(image.tars[0]).encode(), digest(b"another layer").encode())
    archive = Layout().add(image).write_tar(runtime.lab.directory / "refused.tar")
    runtime.ctr("images", "import", "--no-unpack", str(archive))
    runtime.lab.write("etc/containerd/certs.d/_default/hosts.toml", f'[host."http://127.0.0.1:{free_port()}"]\n')
    assert "wrong diff id" in runtime.bad(*runtime.load(archive))
    shutil.rmtree(runtime.lab.certs)
    runtime.remove_all()


def nonsense() -> tuple[socket.socket, int]:
    """A server that does not speak HTTP."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        try:
            while True:
                client, _ = server.accept()
                client.sendall(b"nonsense\r\n\r\n" * 10)
                client.close()
        except OSError:
            pass

    threading.Thread(target=serve, daemon=True).start()
    return server, server.getsockname()[1]


@ALL
def test_pulls_fail_with_a_reason_and_end_in_time(runtime: Runtime) -> None:
    registry = runtime.registry
    registry.push("app", Image(2, 2 * MIB))
    server, port = nonsense()
    assert "not found" in runtime.bad("pull", f"{registry.name}/none:1")
    assert "refused" in runtime.bad("pull", f"127.0.0.1:{free_port()}/app:latest")
    assert f"127.0.0.1:{port}" in runtime.bad("pull", f"127.0.0.1:{port}/app:latest")
    server.close()
    slow = runtime.lab.proxy(registry, 1000)
    assert runtime.bad("pull", f"{slow.name}/app:latest", seconds=2).startswith("ETIMEDOUT")
    other = runtime.lab.proxy(registry, 1000)
    process = runtime.start("pull", f"{other.name}/app:latest")
    until(lambda: other.now, "the download of layers has begun")
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.communicate()[1].startswith("ECANCELED")
    assert time.monotonic() - began < 5 * SLACK, "the cancellation does not wait for the registry"
    runtime.good("pull", f"{registry.name}/app:latest")
    assert f"{registry.name}/app:latest" in runtime.images()
    runtime.assert_nothing_left()


@ALL
def test_a_cancelled_load_ends_although_the_runtime_hangs(runtime: Runtime) -> None:
    image = Built(name("cancelled"), "cancelled", runtime.say, 4, 4 * MIB)
    archive = docker_save(runtime.lab.directory / "cancelled.tar", [image])
    daemon = runtime.lab.daemons["dockerd" if runtime.docker else "containerd"]
    daemon.signal(signal.SIGSTOP)
    try:
        process = runtime.start(*runtime.load(archive))
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=10 * SLACK)[1].startswith("ECANCELED")
    finally:
        daemon.signal(signal.SIGCONT)
    assert image.name not in runtime.images()
