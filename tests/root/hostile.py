# SPDX-License-Identifier: Apache-2.0
"""Archives of images that are hostile, damaged or unusual.

FORMS maps a file's name to the bytes of the archive, made for an image's name, and to the error that the agent reports. The
error "" stands for an archive that is loaded, None for one that this runtime may refuse.
"""

import gzip
import io
import json
import os
import random
import struct
import subprocess
import tarfile
from typing import Any, Callable, Iterable

from imagelab import MACHINE, OCI, Built, Layout, digest, docker_files, tar_of

KIB, MIB = 1 << 10, 1 << 20
INDEX, MANIFEST, CONFIG = f"{OCI}index.v1+json", f"{OCI}manifest.v1+json", f"{OCI}config.v1+json"


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def zstd(data: bytes, *options: str) -> bytes:
    return subprocess.run(["zstd", "-qc", *options], input=data, stdout=subprocess.PIPE, check=True).stdout


def frames(data: bytes, size: int = 200) -> bytes:
    """Each piece is a frame of zstd with one raw block."""
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    return b"".join(b"\x28\xb5\x2f\xfd\x20" + bytes([len(p)]) + (1 | len(p) << 3).to_bytes(3, "little") + p for p in pieces)


def pieces(data: bytes, how: Callable[[bytes], bytes]) -> bytes:
    return b"".join(how(data[at : at + 512]) for at in range(0, len(data), 512))


def skippable(data: bytes = b"", declared: int = 12) -> bytes:
    """A frame that a decoder skips, as pzstd writes it, and data."""
    return struct.pack("<II", 0x184D2A5E, declared) + bytes(12) + data


def docker(name: str, **more: Any) -> dict[str, bytes | str]:
    return docker_files([Built(name, **{"layers": 1, **more})])


def changed(name: str, **entry: Any) -> dict[str, bytes | str]:
    """An archive with other values in its manifest.json."""
    files = docker(name)
    files["manifest.json"] = json.dumps([{**json.loads(files["manifest.json"])[0], **entry}]).encode()
    return files


def of_size(name: str, size: int, fill: bytes | None = None) -> bytes:
    """A tar whose layer has a file of this size: pseudo-random bytes of 20 MiB repeated, or one byte."""
    data = fill * size if fill else (noise(20 * MIB) * (size // (20 * MIB) + 1))[:size]
    return tar_of(docker(name, layers=0, files={"data": data}))


def far(name: str) -> bytes:
    """A tar whose layer ends in pieces from all over it: zstd decodes each block with matches from the whole window."""
    dice, data = random.Random(0), noise(30 * MIB)
    starts = [dice.randrange(len(data)) for _ in range(2 * MIB // 24)]
    data += b"".join(data[at : at + 24] for at in starts)
    return tar_of(docker(name, layers=0, files={"data": data}))


def with_config(name: str, **more: Any) -> dict[str, bytes | str]:
    built = Built(name, layers=1)
    built.config = json.dumps({**json.loads(built.config), **more}).encode()
    built.id = digest(built.config)
    return docker_files([built])


def layout(name: str, change: Callable[[Layout, dict[str, Any]], dict[str, Any] | None], **more: Any) -> bytes:
    """An OCI archive. change(layout, manifest) returns another descriptor than that of the manifest, or None."""
    made, built = Layout(), Built(name, layers=1, **more)
    entry = made.manifest(built)
    manifest = json.loads(made.blobs.pop(entry["digest"]))
    entry = change(made, manifest) or made.blob(MANIFEST, json.dumps(manifest).encode())
    made.manifests.append({"annotations": {"io.containerd.image.name": name}, **entry})
    return tar_of(made.files())


def set_manifest(**more: Any) -> Callable[[Layout, dict[str, Any]], None]:
    return lambda _, manifest: manifest.update(more)


def nested(depth: int, padding: int = 0) -> Callable[[Layout, dict[str, Any]], dict[str, Any]]:
    """Indexes in indexes. Each has an annotation of `padding` bytes."""

    def change(made: Layout, manifest: dict[str, Any]) -> dict[str, Any]:
        entry = made.blob(MANIFEST, json.dumps({**manifest, "annotations": {"": "x" * padding}}).encode())
        for level in range(depth):
            index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry], "annotations": {str(level): "x" * padding}}
            entry = made.blob(INDEX, json.dumps(index).encode())
        return entry

    return change


def wide(n: int, **platform: str) -> Callable[[Layout, dict[str, Any]], dict[str, Any]]:
    """An index with n entries for images of another machine, and the image."""

    def change(made: Layout, manifest: dict[str, Any]) -> dict[str, Any]:
        foreign = made.blob(CONFIG, json.dumps({"architecture": "s390x", "os": "linux"}).encode())
        other = made.blob(MANIFEST, json.dumps({"config": foreign, "layers": []}).encode(), platform=platform)
        here = made.blob(MANIFEST, json.dumps(manifest).encode(), platform={"architecture": MACHINE, "os": "linux"})
        entries = [other] * n + [here]
        return made.blob(INDEX, json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}).encode())

    return change


def beside(made: Layout, manifest: dict[str, Any]) -> dict[str, Any]:
    """An index with an image, and artifacts for no platform before and behind it."""
    first, last = (
        made.blob(MANIFEST, json.dumps({"schemaVersion": 2, "config": made.blob(media, b"-"), "layers": [made.blob("text/spdx", media.encode())]}).encode())
        for media in ("application/vnd.oci.empty.v1+json", "application/vnd.unknown.config.v1+json")
    )
    here = made.blob(MANIFEST, json.dumps(manifest).encode(), platform={"architecture": MACHINE, "os": "linux"})
    return made.blob(INDEX, json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [first, here, last]}).encode())


def many(name: str, images: int, layers: int, values: int = 0) -> dict[str, bytes | str]:
    """Images with one name and one layer, which each has many times, each time with another digest. Their configurations have values."""
    files: dict[str, bytes | str] = {"l": b"", "manifest.json": b""}
    entries = []
    for i in range(images):
        ids = [f"sha256:{i:032x}{k:032x}" for k in range(layers)]
        config = {"architecture": MACHINE, "os": "linux", "rootfs": {"diff_ids": ids}, "x": [0] * values}
        files[f"{i}"] = json.dumps(config).encode()
        entries.append({"Config": f"{i}", "RepoTags": [name], "Layers": ["l"] * layers})
    return {**files, "manifest.json": json.dumps(entries).encode()}


def documents(name: str, n: int) -> bytes:
    """An OCI archive whose index, manifest and configuration have n strings each."""
    strings = ["A" * 128] * n
    made, built = Layout(), Built(name, layers=1)
    built.config = json.dumps({**json.loads(built.config), "config": {"Env": strings}}).encode()
    built.id = digest(built.config)
    entry = made.manifest(built)
    body = json.loads(made.blobs.pop(entry["digest"]))
    entry = made.blob(MANIFEST, json.dumps({**body, "x": strings}).encode())
    made.manifests.append({**entry, "annotations": {"io.containerd.image.name": name, "x": strings}})
    return tar_of(made.files())


def layers_of(name: str, n: int) -> bytes:
    def change(_: Layout, manifest: dict[str, Any]) -> None:
        manifest["layers"] *= n

    return layout(name, change)


def descriptor(**more: Any) -> Callable[[Layout, dict[str, Any]], None]:
    """Other values in the descriptor of the layer."""
    return lambda _, manifest: manifest["layers"][0].update(more)


def padded(files: dict[str, Any], n: int, name: Callable[[int], str], **header: Any) -> bytes:
    """The archive after n empty files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for i in range(n):
            entry = tarfile.TarInfo(name(i))
            for key, value in header.items():
                setattr(entry, key, value)
            tar.addfile(entry)
    end = out.getvalue().rstrip(b"\0")
    return end + bytes(-len(end) % 512) + tar_of(files)


def header(files: dict[str, Any], kind: bytes, body: bytes, size: int | None = None, name: str = "header") -> bytes:
    """The archive after a header of this type."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.size = kind, len(body) if size is None else size
    return entry.tobuf(tarfile.GNU_FORMAT) + body + bytes(-len(body) % 512) + tar_of(files)


def pax(key: str, value: str) -> bytes:
    size = len(key) + len(value) + 3
    while len(f"{size} {key}={value}\n") != size:
        size += 1
    return f"{size} {key}={value}\n".encode()


def images(names: Iterable[str], **more: Any) -> dict[str, bytes | str]:
    return docker_files([Built(name, **{"layers": 1, "size": 100, **more}) for name in names])


def links(name: str, target: str) -> dict[str, bytes | str]:
    files = docker(name)
    layer = json.loads(files["manifest.json"])[0]["Layers"][0]
    return {**files, layer: target}


Form = tuple[Callable[[str], bytes], str | None]
FORMS: dict[str, Form] = {
    # Compression
    "window-25.tar.zst": (lambda n: zstd(of_size(n, 60 * MIB), "-1", "--long=25"), ""),
    "window-far.tar.zst": (lambda n: zstd(far(n), "-9", "--zstd=wlog=25,hlog=25,clog=25,mml=4"), ""),
    "window-27.tar.zst": (lambda n: zstd(of_size(n, 60 * MIB), "-1", "--long=27"), ""),
    "window-19.tar.zst": (lambda n: zstd(of_size(n, 60 * MIB), "-1"), ""),
    "window-20.tar.zst": (lambda n: zstd(of_size(n, 60 * MIB), "-1", "--zstd=wlog=20"), ""),
    "zeros-3.tar.zst": (lambda n: zstd(of_size(n, 256 * MIB, b"\0"), "-3"), ""),
    "zeros-19.tar.zst": (lambda n: zstd(of_size(n, 128 * MIB, b"\0"), "-19"), ""),
    "zeros-22.tar.zst": (lambda n: zstd(of_size(n, 64 * MIB, b"\0"), "--ultra", "-22"), None),
    "zeros.tar.gz": (lambda n: gzip.compress(of_size(n, 256 * MIB, b"\0"), 9), ""),
    "only-zeros.tar.zst": (lambda n: zstd(bytes(256 * MIB), "-19"), "not a tar file"),
    "only-zeros.tar.gz": (lambda n: gzip.compress(bytes(256 * MIB), 9), "not a tar file"),
    "tiny-frames.tar.zst": (lambda n: frames(tar_of(docker(n, size=2 * MIB))), ""),
    "frames-of-1-byte.tar.zst": (lambda n: frames(tar_of(docker(n, size=20_000)), 1), ""),
    "pzstd.tar.zst": (lambda n: skippable(zstd(tar_of(docker(n)))), ""),
    "skippable-many.tar.zst": (lambda n: skippable() * 20_000 + zstd(tar_of(docker(n))), ""),
    "skippable-only.tar.zst": (lambda n: skippable() * 1000, "empty"),
    "skippable-4g.tar.zst": (lambda n: skippable(zstd(tar_of(docker(n))), 0xFFFFFFFF), "zstd: truncated"),
    "members.tar.gz": (lambda n: pieces(tar_of(docker(n)), gzip.compress), ""),
    "padded.tar.gz": (lambda n: gzip.compress(tar_of(docker(n))) + bytes(10_000), ""),
    "long-name.tar.gz": (lambda n: (data := gzip.compress(tar_of(docker(n))))[:3] + b"\x18" + data[4:10] + b"n" * 300_000 + b"\0comment\0" + data[10:], ""),
    "large-block.tar.zst": (lambda n: b"\x28\xb5\x2f\xfd\x00\x58" + (3 | 1 << 23).to_bytes(3, "little") + b"x", "zstd: Destination buffer is too small"),
    "truncated.tar.zst": (lambda n: zstd(tar_of(docker(n)))[:-50], "zstd: truncated"),
    "truncated.tar.gz": (lambda n: gzip.compress(tar_of(docker(n)))[:-50], "gzip: truncated or damaged"),
    "tail.tar.zst": (lambda n: zstd(tar_of(docker(n))) + b"tail", "zstd: Unknown frame descriptor"),
    "nested.tar.zst": (lambda n: zstd(gzip.compress(tar_of(docker(n)))), "not a tar file"),
    "empty.tar.gz": (lambda n: gzip.compress(b""), "empty"),
    "layer-window-27.tar": (lambda n: layer_by(n, lambda data: zstd(data, "-1", "--long=27"), "zstd"), None),
    "layer-torn.tar": (lambda n: layer_by(n, lambda data: zstd(data)[:-9], "zstd"), None),
    "layer-noise.tar": (lambda n: layer_by(n, lambda data: noise(5000), "gzip"), "."),
    "layer-other.tar": (lambda n: layer_by(n, lambda data: gzip.compress(tar_of({"a": b"b"})), "gzip"), "."),
    # JSON
    "names-10000.tar": (lambda n: tar_of(changed(n, Layers=["x/layer.tar"] * 10_000)), "too large|more than 512 layers"),
    "layers-513.tar": (lambda n: layers_of(n, 513), "more than 512 layers"),
    "layers-10000.tar": (lambda n: layers_of(n, 10_000), "too large"),
    "layers-disagree.tar": (lambda n: layers_of(n, 2), "do not agree"),
    "json-2m.tar": (lambda n: tar_of(changed(n, Comment="x" * 2 * MIB)), "manifest.json: too large"),
    "json-1m.tar": (lambda n: tar_of(changed(n, Comment="x" * 900 * KIB)), ""),
    "json-deep.tar": (lambda n: tar_of({**docker(n), "manifest.json": b"[" * 100_000}), "too large|invalid JSON"),
    "json-999-deep.tar": (lambda n: tar_of({**docker(n), "manifest.json": b"[" * 999 + b"]" * 999}), "."),
    "json-commas.tar": (lambda n: tar_of({**docker(n), "manifest.json": b"[" + b"0," * 400_000 + b"0]"}), "too large|invalid JSON"),
    "json-values.tar": (lambda n: tar_of(changed(n, Comment=["x"] * 7900)), None),
    "json-strings.tar": (lambda n: tar_of(changed(n, Comment=["x" * 130] * 7000)), None),
    "json-keys.tar": (lambda n: tar_of(changed(n, Comment={f"{i:0130}": "" for i in range(3900)})), None),
    "json-nul.tar": (lambda n: tar_of({**docker(n), "manifest.json": b"[{\0}]"}), "invalid JSON"),
    "json-number.tar": (lambda n: layout(n, descriptor(size=1e300)), "valid digest, size or type"),
    "json-type.tar": (lambda n: layout(n, descriptor(mediaType=f"{OCI}layer.v1.tar\r\nb: c")), "valid digest, size or type"),
    "json-list.tar": (lambda n: tar_of({**docker(n), "manifest.json": b"7"}), "it lists no images"),
    "json-object.tar": (lambda n: tar_of({**docker(n), "manifest.json": b'{"layers": [{}]}'}), "it lists no images"),
    "config-label.tar": (lambda n: tar_of(with_config(n, config={"Labels": {"io.buildpacks.build.metadata": "x" * 700 * KIB}})), ""),
    "config-strings.tar": (lambda n: tar_of(with_config(n, config={"Env": ["A=" + "x" * 120] * 7000})), None),
    "config-history.tar": (lambda n: tar_of(with_config(n, history=[{"created_by": "x" * 200, "empty_layer": True}] * 500 + [{}])), ""),
    "nested-4.tar": (lambda n: layout(n, nested(4)), ""),
    "nested-5.tar": (lambda n: layout(n, nested(5)), "indexes too deep"),
    "nested-1m.tar": (lambda n: layout(n, nested(4, 900 * KIB)), ""),
    "wide-300.tar": (lambda n: layout(n, wide(300, architecture="s390x", os="linux")), ""),
    "wide-900.tar": (lambda n: layout(n, wide(900, architecture="s390x", os="linux")), "too large"),
    "wide-here.tar": (lambda n: layout(n, wide(300, architecture=MACHINE, os="linux")), "more than 64 manifests"),
    "both.tar": (lambda n: layout(n, lambda made, m: made.blob(INDEX, json.dumps({**m, "manifests": []}).encode())), "both index and manifest"),
    "urls.tar": (lambda n: layout(n, descriptor(URLs=["http://192.0.2.1/layer"])), "fetched from URLs"),
    "artifact.tar": (lambda n: layout(n, lambda _, m: m["config"].update(mediaType="application/vnd.cncf.helm.config.v1+json")), "not an image"),
    "signature.tar": (lambda n: layout(n, descriptor(mediaType="application/vnd.dev.cosign.simplesigning.v1+json")), "not an image"),
    "artifact-beside.tar": (lambda n: layout(n, beside), ""),
    "size-wrong.tar": (lambda n: layout(n, descriptor(size=7)), "bytes, expected 7"),
    "size-two.tar": (lambda n: layout(n, lambda _, m: m["config"].update(size=m["config"]["size"] + 1)), "bytes, expected"),
    "digest-none.tar": (lambda n: layout(n, descriptor(digest="sha256:../../../etc/passwd")), "valid digest, size or type"),
    "digest-missing.tar": (lambda n: layout(n, descriptor(digest=digest(b"none"))), "is missing in the archive"),
    "images-128.tar": (lambda n: tar_of(images([n] + [f"{n}-{i}" for i in range(127)])), ""),
    "layers-5120.tar": (lambda n: tar_of(many(n, 128, 40)), "two images are"),
    "layers-files-values.tar": (lambda n: padded(many(n, 128, 21, 5400), 3900, str), "two images are"),
    "documents-large.tar": (lambda n: documents(n, 1200), "too large"),
    "images-129.tar": (lambda n: tar_of(images([n] + [f"{n}-{i}" for i in range(128)])), "more than 128 images"),
    "tags-500.tar": (lambda n: tar_of(changed(n, RepoTags=[n] + [f"{n}-{i}" for i in range(500)])), "more than 128 images"),
    "name-none.tar": (lambda n: tar_of(changed(n, RepoTags=None)), "no complete name: give it one"),
    "name-odd.tar": (lambda n: tar_of(changed(n, RepoTags=["../../etc", "a b", "\x1b[2J", "x" * 300])), "no complete name"),
    "name-twice.tar": (lambda n: tar_of(images([n, f"{n}-2", f"{n}-2"])), "two images are"),
    "name-thrice.tar": (lambda n: tar_of(images([n, f"{n}-2", f"{n}-2", f"{n}-2"])), "two images are"),
    "name-of-machine.tar": (lambda n: tar_of(with_config(n, architecture=os.uname().machine)), ""),
    "name-foreign.tar": (lambda n: tar_of(with_config(n, architecture="s390x")), "not for linux"),
    # Tar
    "files-4000.tar": (lambda n: padded(docker(n), 4000, lambda i: f"{i:0250}"), ""),
    "files-4090-in-gz.tar.gz": (lambda n: gzip.compress(padded(docker(n), 4090, lambda i: f"{i:0250}"), 1), ""),
    "files-5000.tar": (lambda n: padded(docker(n), 5000, lambda i: f"{i:090}"), "more than 4096 files"),
    "names-long.tar": (lambda n: padded(docker(n), 400, lambda i: f"{i:090}/" * 40 + "x"), ""),
    "links-long.tar": (lambda n: padded(docker(n), 400, str, type=tarfile.SYMTYPE, linkname="x/" * 1900), ""),
    "directories.tar": (lambda n: padded(docker(n), 50_000, lambda i: f"{i}/", type=tarfile.DIRTYPE), ""),
    "devices.tar": (lambda n: padded(docker(n), 1000, str, type=tarfile.CHRTYPE), ""),
    "path-long.tar": (lambda n: padded(docker(n), 1, lambda i: "x/" * 3000), "extended header"),
    "pax-large.tar": (lambda n: header(docker(n), b"x", pax("comment", "x" * 70_000)), "a header of 7"),
    "pax-60k.tar": (lambda n: header(docker(n), b"x", pax("comment", "x" * 60_000)), ""),
    "pax-global.tar": (lambda n: header(docker(n), b"g", pax("comment", "x" * 60_000)), ""),
    "pax-bad.tar": (lambda n: header(docker(n), b"x", b"99999999999999999999 a=b\n"), "extended header"),
    "pax-size.tar": (lambda n: header(docker(n), b"x", pax("size", "-1")), "extended header"),
    "sparse.tar": (lambda n: header(docker(n), b"S", b""), "sparse file"),
    "sparse-pax.tar": (lambda n: header(docker(n), b"x", pax("GNU.sparse.major", "1")), "sparse file"),
    "size-huge.tar": (lambda n: header(docker(n), b"0", b"", 1 << 62), "truncated: "),
    "size-negative.tar": (lambda n: header(docker(n), b"0", b"", -1), "not a tar file"),
    "path-absolute.tar": (lambda n: tar_of({**docker(n), "/etc/passwd": b"x"}), "leads out of the archive"),
    "path-parent.tar": (lambda n: tar_of({**docker(n), "../../x": b"x"}), "leads out of the archive"),
    "path-of-label.tar": (lambda n: header(docker(n), b"V", b"", name="/images of May"), ""),
    "path-of-directory.tar": (lambda n: header(docker(n), b"5", b"", name="../images/"), ""),
    "link-loop.tar": (lambda n: tar_of({**links(n, "../a"), "a": "b", "b": "a"}), "more than 8 links"),
    "link-out.tar": (lambda n: tar_of(links(n, "../../../etc/passwd")), "links out of the archive"),
    "link-gone.tar": (lambda n: tar_of(links(n, "../gone")), "is missing in the archive"),
    "torn.tar": (lambda n: tar_of(docker(n))[:50_000], "truncated: "),
    "damaged.tar": (lambda n: tar_of({"a": b"b"})[:1024] + b"x" + tar_of(docker(n))[1:], "the header at byte 1024 is damaged"),
    "nothing.tar": (lambda n: tar_of({"a": b"b"}), "neither manifest.json nor index.json"),
    "empty.tar": (lambda n: b"", "empty"),
    "noise.tar": (lambda n: noise(100_000), "not a tar file"),
}  # fmt: skip


def layer_by(name: str, how: Callable[[bytes], bytes], media: str) -> bytes:
    """An OCI archive with a layer of 20 MiB."""
    made, built = Layout(), Built(name, layers=1, size=20 * MIB)
    layer = made.blob(f"{OCI}layer.v1.tar+{media}", how(built.tars[0]))
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": made.blob(CONFIG, built.config), "layers": [layer]}
    entry = made.blob(MANIFEST, json.dumps(manifest).encode())
    made.manifests.append({**entry, "annotations": {"io.containerd.image.name": name}})
    return tar_of(made.files())
