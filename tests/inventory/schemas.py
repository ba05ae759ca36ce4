"""JSON of commands and files, and what users write, as the models describe them: a line per field."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from pydantic import TypeAdapter

from tests.inventory.source import defined

PRINTED = {
    "up": "Up",
    "status": "Status.pools",
    "deploy": "Deployed",
    "backup": "Manifest.artifacts",
    "restore": "Manifest.artifacts",
    "gc": "Cleanup",
    "doctor": "Report",
    "rag index": "IndexReport",
    "rag index --dry-run": "FigurePlan",
    "rag status": "IndexStatus",
    "rag ask": "Answered",
    "rag batch": "BatchReport",
    "rag chat": "Answered",
    "rag eval": "Measured.model_fields",
    "eval run": "EvalReport",
    "eval run --dry-run": "RunEstimate",
    "eval score --run": "RegradedRun",
    "eval compare tasks[]": "TaskComparison",
    "eval show": "EvalReport",
    "eval show --item samples[]": "SampleDetails",
    "eval import imported[]": "Imported",
    "lever run": "LeverReport",
    "lever vqa-score": "VqaScores",
    "nightly run": "NightReport",
    "nightly report": "NightReport",
    "nightly accept": "Incident",
    "why origins[]": "OriginTree.step",
    "db upgrade": "Revisions",
}
"""What commands print with --json, where a model describes it."""
FILES = {
    "index CURRENT": "Pointer.generation",
    "index manifest.json": "Manifest.embedder",
    "index segment-catalogue": "CatalogueEntry",
    "index segment-text": "Chunk",
    "index index_status.json": "IndexStatus",
    "lever figures.json": "Summary.conditions",
    "lever rl_data.json *": "RlQuery",
    "service service.json": "Service",
    "service asked.json": "ServiceSettings.port",
}
"""What is written for a user to read, where a model describes it."""
GIVEN = {
    "benchmark.yaml": "Definition.prompt",
    "models.yaml *": "Entry",
    "suite.yaml": "Suite",
    "scripted rules []": "Rule.model_fields",
    "questions.jsonl": "Question.pages",
    "POST /ask": "Question.session",
}
"""What a user writes: files, and requests."""


def json_keys() -> Iterator[str]:
    """`rag index --json | documents.failed`, a line per key, of all that a model describes."""
    described = [(f"{name} --json", model) for name, model in PRINTED.items()]
    for name, model in chain(described, FILES.items()):
        schema = TypeAdapter(defined(model)).json_schema(mode="serialization")
        yield from (f"{name} | {path}" for path, *_ in fields(schema))


def inputs() -> Iterator[str]:
    """Files and requests that a user writes, a line per field."""
    for name, model in GIVEN.items():
        yield from described(name, defined(model).model_json_schema())


def described(name: str, schema: dict[str, Any]) -> Iterator[str]:
    """`name | path | type | default` of every field of a JSON schema."""
    for path, kind, default in fields(schema):
        yield f"{name} | {path} | {kind} | {default}"


def fields(schema: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Path, type and default of every field of a JSON schema; the items of a list are `[]`, of a map `*`."""
    known = schema.get("$defs", {}) | schema.get("definitions", {})
    yield from _inside(schema, known, "", None, ())


def _inside(
    schema: dict[str, Any], known: dict[str, Any], path: str, given: Any, seen: tuple[str, ...]
) -> Iterator[tuple[str, str, str]]:
    """given: the default of the whole, which goes before the defaults of its parts."""
    if name := schema.get("$ref", "").rpartition("/")[2]:
        if name not in seen:  # a block holds blocks
            yield from _inside(known[name], known, path, given, (*seen, name))
        return
    for part in chain(*(schema.get(kind, ()) for kind in ("anyOf", "oneOf", "allOf"))):
        yield from _inside(part, known, path, given, seen)
    if isinstance(items := schema.get("items"), dict):
        yield from _inside(items, known, f"{path}[]", None, seen)
    for number, item in enumerate(schema.get("prefixItems", ())):
        yield from _inside(item, known, f"{path}[{number}]", None, seen)
    if isinstance(rest := schema.get("additionalProperties"), dict):
        yield from _inside(rest, known, f"{path}.*".lstrip("."), None, seen)
    for name, field in schema.get("properties", {}).items():
        inner = f"{path}.{name}".lstrip(".")
        default = given[name] if isinstance(given, dict) and name in given else field.get("default", ...)
        nested = isinstance(default, dict) and bool(default)
        said = "required" if name in schema.get("required", ()) else "= computed" if default is ... else f"= {default}"
        yield inner, _kind(field, known), "= as below" if nested else said
        yield from _inside(field, known, inner, default, seen)


def _kind(schema: dict[str, Any], known: dict[str, Any]) -> str:
    """`integer ≥1`, `auto|off`, `string|null`: never the name of a class, which may change."""
    if name := schema.get("$ref", "").rpartition("/")[2]:
        return (
            _kind(known[name] | {"properties": None}, known)
            if "properties" in known[name]
            else _kind(known[name], known)
        )
    if parts := schema.get("anyOf") or schema.get("oneOf"):
        return "|".join(dict.fromkeys(_kind(part, known) for part in parts))
    if values := schema.get("enum") or ([schema["const"]] if "const" in schema else None):
        return "|".join(map(str, values))
    bounds = (
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "minLength",
        "minItems",
        "maxItems",
        "pattern",
    )
    limits = "".join(f" {bound} {schema[bound]}" for bound in bounds if bound in schema)
    items = f" of {_kind(schema['items'], known)}" if isinstance(schema.get("items"), dict) else ""
    return str(schema.get("format") or schema.get("type", "anything")) + items + limits
