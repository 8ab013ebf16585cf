# SPDX-License-Identifier: Apache-2.0
"""The JSON Schemas of the documents, which the package installs.

A document may get new members in a release, so the schemas allow them. A test does not: each member that the program
prints is in the schema.
"""

import json
from pathlib import Path
from typing import Any, Iterator

import jsonschema

SCHEMAS = Path(__file__).parents[2] / "packaging/schema"
BASE = "https://headroom.invalid/"


def closed(schema: Any) -> Any:
    """The schema without unknown members."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    more = {"additionalProperties": False} if isinstance(schema.get("properties"), dict) and "type" in schema else {}
    return {**more, **{name: closed(value) for name, value in schema.items()}}


SCHEMA = {path.stem: json.loads(path.read_text()) for path in SCHEMAS.glob("*.json")}
CLOSED = {BASE + name + ".json": closed(schema) for name, schema in SCHEMA.items()}


def faults(kind: str, document: Any) -> list[str]:
    """What the document of this kind has that its schema does not, and the other way round."""
    schema = CLOSED[BASE + kind + ".json"]
    resolver = jsonschema.RefResolver(BASE + kind + ".json", schema, store=CLOSED)
    errors = jsonschema.Draft7Validator(schema, resolver=resolver).iter_errors(document)
    return [f"{kind}: {'/'.join(map(str, error.absolute_path))}: {error.message[:300]}" for error in errors]


def example(schema: Any, file: str) -> Any:
    """A document with each member of a schema."""
    if "$ref" in schema:
        name, _, pointer = schema["$ref"].partition("#")
        found: Any = SCHEMA[Path(name).stem if name else file]
        for key in filter(None, pointer.split("/")):
            found = found[key]
        return example(found, Path(name).stem if name else file)
    if "anyOf" in schema:
        return example(schema["anyOf"][0], file)
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [""])[0])
    kind = schema.get("type", "string")
    kind = kind if isinstance(kind, str) else kind[0]
    if kind == "object":
        members = {name: example(value, file) for name, value in schema.get("properties", {}).items()}
        more = schema.get("additionalProperties")
        return {**members, **({"some": example(more, file)} if isinstance(more, dict) else {})}
    if kind == "array":
        items = schema.get("items", {})
        return [example(item, file) for item in (items if isinstance(items, list) else [items])]
    text = "2024-05-01T12:00:00Z" if "pattern" in schema else "text"
    return {"number": 3, "integer": 3, "boolean": True, "null": None}.get(kind, text)


MISSING = object()
OTHERS = (MISSING, None, -1e300, "no-such-word", [1], {"a": 1})
AT_ONCE = 8  # each document has every eighth member as another one


def places(document: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], bool]]:
    """The path of each member of a document, and whether it has members itself."""
    members = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    for key, value in members:
        yield (*at, key), bool(value) and isinstance(value, (dict, list))
        yield from places(value, (*at, key))


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy whose member at this path has another value, or is missing."""
    if not path:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    if value is MISSING and len(path) == 1:
        copy[path[0]] = None
        if isinstance(copy, dict):
            del copy[path[0]]
    else:
        copy[path[0]] = changed(copy[path[0]], path[1:], value)
    return copy


def mutated(document: Any) -> Iterator[Any]:
    """Documents of a program of another version: members are missing, or have other types and words."""
    all_places = list(places(document))
    leaves = [path for path, has_members in all_places if not has_members]
    inner = [[path for path, has_members in all_places if has_members and path[0] == key] for key in document]
    groups = [leaves[at::AT_ONCE] for at in range(AT_ONCE)]
    groups += [[paths[at] for paths in inner if at < len(paths)] for at in range(max(map(len, inner)))]
    for value in OTHERS:
        for group in groups:
            one = document
            for path in group:
                one = changed(one, path, value)
            yield one
