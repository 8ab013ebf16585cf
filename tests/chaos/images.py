# SPDX-License-Identifier: Apache-2.0
"""Archives of images, the fake containerd's image store, and the promises about both."""

import contextlib
import hashlib
import io
import json
import os
import platform
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from program import SEEN
from world import LAB, Violation, clear
from world import STATE as RECORDS

if TYPE_CHECKING:
    from node import Node

APP, TOOL = "registry.example/app:1", "registry.example/tool:1"
ARCHIVES = Path("/var/lib/images")
PATTERN = f"{ARCHIVES}/*.tar"
TABLES = LAB / "images"  # of the fake containerd
STORE = TABLES / "store"  # a file system of its own
LOADED = 1900.0  # seconds until an archive must be loaded: after a full disk it is tried again in up to 15 minutes
KIB = 1024
BEGUN = 64 * KIB  # the first bytes of an archive


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Archive:
    """An OCI layout in a tar file, with one layer of zeros for each image."""

    def __init__(self, **images: tuple[str, int]) -> None:
        self.needs: dict[str, int] = {}  # bytes in the store
        self.tops: dict[str, str] = {}  # name -> digest of the manifest
        self.ids: dict[str, str] = {}  # digest of the manifest -> of the configuration
        blobs: dict[str, bytes] = {}
        index = []

        def blob(data: bytes | Any, kind: str = "") -> dict[str, Any]:
            data = data if isinstance(data, bytes) else json.dumps(data).encode()
            blobs[digest(data)] = data
            return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": digest(data), "size": len(data)}

        for label, (name, size) in images.items():
            layer = tar({label: bytes(size)})
            machine = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
            config = blob({"os": "linux", "architecture": machine, "rootfs": {"type": "layers", "diff_ids": [digest(layer)]}}, "config.v1+json")
            manifest = blob({"schemaVersion": 2, "config": config, "layers": [blob(layer, "layer.v1.tar")]}, "manifest.v1+json")
            index.append({**manifest, "annotations": {"io.containerd.image.name": name}})
            self.tops[name] = manifest["digest"]
            self.ids[manifest["digest"]] = config["digest"]
            self.needs[name] = 2 * len(layer)
        document = {"schemaVersion": 2, "manifests": index}
        files = {f"blobs/{name.replace(':', '/')}": data for name, data in blobs.items()}
        self.data = tar({"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": json.dumps(document).encode(), **files})


def tar(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


CONTENTS = {
    "app": Archive(app1=(APP, 100 * KIB)),
    "newer app": Archive(app2=(APP, 150 * KIB)),
    "tool": Archive(tool=(TOOL, 60 * KIB)),
    "both": Archive(app3=(APP, 40 * KIB), tool2=(TOOL, 40 * KIB)),
    "large": Archive(app4=(APP, 300 * KIB)),
}
FOREIGN = {f"sha256:{n:064x}": 20 * KIB for n in (1, 2)}  # images that others make


class Images:
    def __init__(self, node: "Node") -> None:
        self.node, self.world = node, node.world
        rows = [(top, archive.ids[top], archive.needs[name]) for archive in CONTENTS.values() for name, top in archive.tops.items()]
        rows += [(top, top, size) for top, size in FOREIGN.items()]
        (TABLES / "contents").write_text("".join(f"{top} {id_} {size}\n" for top, id_, size in rows))
        self.sizes = {top: size for top, _, size in rows}
        self.tops = {top for archive in CONTENTS.values() for top in archive.tops.values()}
        self.reset()

    def reset(self) -> None:
        clear(STORE)
        for table in ("images", "leases", "pins"):
            (TABLES / table).write_text("")
        ARCHIVES.mkdir(exist_ok=True)
        self.archives: dict[str, str] = {}  # file -> content
        self.growing: set[str] = set()
        self.names: dict[str, str] = {}  # as last seen
        self.pins: set[str] = set()  # as last seen
        self.pinned: set[str] = set()  # by us
        self.pin_was_wanted = False
        self.by_hand: set[str] = set()  # names that others moved
        self.loaded: dict[str, str] = {}  # by us: name -> digest; "": perhaps others
        self.used = self.usage()
        self.changed = self.due = self.clean = self.world.now
        self.pull_due = self.world.now

    # ---- what hands do ----

    def put(self, file: str, content: str) -> None:
        path = ARCHIVES / f"{file}.tar"
        with contextlib.suppress(OSError):  # a full or read-only disk
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            self.archives.pop(file, None)
            self.growing.discard(file)
            new = path.with_suffix(".new")
            if content == "directory":
                path.mkdir()
            elif content == "fifo":
                os.mkfifo(path)
            elif content == "growing":
                path.write_bytes(CONTENTS["both"].data[:BEGUN])
                self.growing.add(file)
            elif content == "broken":
                new.write_bytes(CONTENTS["app"].data[:BEGUN])
                new.rename(path)
            elif content != "missing":
                new.write_bytes(CONTENTS[content].data)
                new.rename(path)
                self.archives[file] = content
        self.due = self.world.now

    def finish(self, file: str) -> None:
        """Whoever writes an archive in place writes its rest."""
        with contextlib.suppress(OSError), (ARCHIVES / f"{file}.tar").open("ab") as out:
            out.write(CONTENTS["both"].data[BEGUN:])
            self.archives[file] = "both"
        self.growing.discard(file)
        self.due = self.world.now

    def move(self, name: str, top: str) -> None:
        """Someone gives a name to another image, or (with "") removes it."""
        self.observe()
        rows = dict(line.split() for line in (TABLES / "images").read_text().splitlines())
        rows.pop(name, None)
        if top:
            try:
                with (STORE / top).open("wb") as file:
                    os.posix_fallocate(file.fileno(), 0, self.sizes[top])
            except OSError:
                return
            rows[name] = top
        (TABLES / "images").write_text("".join(f"{key} {value}\n" for key, value in rows.items()))
        for file in STORE.glob("sha256:*"):
            if file.name not in rows.values():
                file.unlink()
        self.names, self.used = self.read(), self.usage()
        self.by_hand.add(name)
        self.put_pins(self.read_pins() - {name})  # a pull makes it anew
        if top in self.tops:  # for the program it is its own
            self.loaded[name] = ""
        self.changed = self.due = self.world.now

    def put_pins(self, pins: set[str]) -> None:
        (TABLES / "pins").write_text("".join(f"{name} -\n" for name in sorted(pins)))
        self.pins = pins
        self.pinned &= pins

    def pin(self, name: str, on: bool) -> None:
        """Someone pins an image, or removes the pin."""
        self.observe()
        self.put_pins(self.pins | ({name} & {*self.names}) if on else self.pins - {name})

    def fill(self, percent: int) -> None:
        """Other files fill the store."""
        (STORE / "filler").unlink(missing_ok=True)
        size = os.statvfs(STORE).f_blocks * os.statvfs(STORE).f_frsize
        wanted = min(size * percent // 100 - self.usage(), size - self.usage())
        if wanted > 0:
            with (STORE / "filler").open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, wanted)
        self.used = self.usage()
        self.due = self.world.now

    # ---- what the program does ----

    @staticmethod
    def read() -> dict[str, str]:
        return dict(line.split() for line in (TABLES / "images").read_text().splitlines())

    @staticmethod
    def read_pins() -> set[str]:
        return {line.split()[0] for line in (TABLES / "pins").read_text().splitlines()}

    def observe_pins(self) -> None:
        pins, configs = self.read_pins(), self.node.possible_configs()
        wanted = any(c.mode("images") == "enforce" and c.fields["pin"] for c in configs)
        self.pin_was_wanted |= wanted
        if pins - self.pins and not (wanted and (self.node.released.get("images") != "yes" or self.node.commands)):
            raise Violation("consent", f"{pins - self.pins} was pinned: {self.node.explain()}")
        if gone := {name for name in self.pins - pins if name in self.names and not self.pin_was_wanted}:
            raise Violation("consent", f"the pin of {gone} is gone: {self.node.explain()}")
        self.pinned = (self.pinned | (pins - self.pins)) & pins
        self.pins = pins

    def judge_restore(self, why: str) -> None:
        """After a restore that succeeded."""
        if self.pinned:
            raise Violation("originals", f"restore left pins of {self.pinned}: {why}")

    @staticmethod
    def usage() -> int:
        fs = os.statvfs(STORE)
        return (fs.f_blocks - fs.f_bavail) * fs.f_frsize

    def limit(self) -> int:
        fs = os.statvfs(STORE)
        return fs.f_blocks * fs.f_frsize * max(self.node.kubelet.thresholds()) // 100

    def allowed(self) -> bool:
        """Whether an agent or command that runs now may load archives."""
        configs = self.node.possible_configs()
        wanted = any(c.mode("images") == "enforce" and c.fields["archives"] == PATTERN for c in configs)
        return wanted and (self.node.released.get("images") != "yes" or bool(self.node.commands))

    def observe(self) -> None:
        names, used = self.read(), self.usage()
        self.observe_pins()
        if names != self.names:
            for name in {*names, *self.names}:
                if names.get(name) != self.names.get(name) and name in (APP, TOOL):
                    self.judge(name, self.names.get(name), names.get(name))
            self.names, self.changed = names, self.world.now
        if used > self.used and used > self.limit():
            raise Violation("room", f"the image store has {used} of {self.limit()} bytes: {self.node.explain()}")
        self.used = used

    def judge(self, name: str, before: str | None, after: str | None) -> None:
        if after is None:
            raise Violation("originals", f"{name} is gone: {self.node.explain()}")
        if not self.allowed():
            raise Violation("consent", f"{name} was loaded: {self.node.explain()}")
        if before and name in self.by_hand and self.loaded.get(name) in (None, after):
            raise Violation("consent", f"{name} was moved from {before} of others to {after}: {self.node.explain()}")
        self.loaded[name] = after
        self.by_hand.discard(name)

    def forget(self) -> None:
        """A process was killed, perhaps before it recorded a load."""
        self.loaded = {name: "" for name in self.loaded}

    # ---- promises ----

    def supervised(self) -> bool:
        """Whether one agent loads all archives into containerd, and nothing keeps it from that."""
        configs, runtime = self.node.possible_configs(), self.node.runtime
        due = {(c.mode("images"), c.fields["runtime.kind"], c.fields["archives"]) for c in configs}
        idle = {c.fields["runtime.restart"] for c in configs} == {"never"}  # else a restart may be due
        return runtime.supervised() and runtime.running() and idle and due == {("enforce", "containerd", PATTERN)} and not self.node.released

    def check(self, document: dict[str, Any]) -> None:
        now, runtime = self.world.now, self.node.runtime
        silent = any((runtime.STATE / name).exists() for name in ("hangs", "slow"))
        if not self.supervised() or silent:
            self.due = self.clean = now
        self.check_pull()
        ours = [name for name in self.names if "headroom-preload" in name] or (TABLES / "leases").read_text()
        if not ours:
            self.clean = now
        if now - max(self.clean, runtime.started) > SEEN:
            raise Violation("room", f"a killed agent left {ours}: {self.node.explain()}")
        kinds = {c.fields["runtime.kind"] for c in self.node.possible_configs()}
        if not silent and runtime.running() and kinds == {"containerd"} and now - max(self.changed, runtime.started) > SEEN:
            for row in document.get("images", []):
                if row["state"] == "ready" and row["name"] not in self.names:
                    raise Violation("truth", f"status says {row}, but containerd has {self.names}")
                if row["state"] == "ready" and row["source"] != "registry" and self.names[row["name"]] in FOREIGN:
                    raise Violation("truth", f"{row['name']} has an image of others, but status says {row}")
        if now - max(self.due, self.changed, runtime.started) > LOADED:
            self.check_loaded()

    def check_loaded(self) -> None:
        for content in self.archives.values():
            for name in CONTENTS[content].tops:
                if name not in self.names and self.used + CONTENTS["large"].needs[APP] * 1.2 < self.limit():
                    raise Violation("progress", f"{name} is not loaded: {self.node.explain()}")

    def check_pull(self) -> None:
        """A load of ours ends at once when nobody wants it any more."""
        node, runtime = self.node, self.node.runtime
        stopped = any(a.stopped for a in node.agents.values())
        if self.allowed() or node.commands or stopped or (runtime.STATE / "hangs").exists():
            self.pull_due = self.world.now
        if (runtime.STATE / "pulling").exists() and runtime.running() and self.world.now - max(self.pull_due, runtime.started) > 5:
            raise Violation("consent", f"an archive is loaded that nobody wants any more: {node.explain()}")
