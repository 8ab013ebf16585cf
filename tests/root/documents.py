# SPDX-License-Identifier: Apache-2.0
"""The JSON Schemas of the documents, which the package installs.

A document may get new members in a release, so the schemas allow them. A test does not: each member that the program
prints is in the schema.
"""

import json
from pathlib import Path
from typing import Any

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
