"""The format that a model's answers keep to: a JSON schema, or any JSON object, as `response_format` says it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, JsonValue

from models.model_errors import ModelUnavailable

NAME = "answer"  # name of a schema that has none; the APIs require one
EXAMPLE = '{"type": "json_schema", "json_schema": {"schema": {…}}} or {"type": "json_object"}'


def schema_of(response_format: object) -> dict[str, JsonValue] | None:
    """Return the JSON schema that each answer keeps to; None where any JSON object will do.

    Raises ModelUnavailable for what is no response_format; whether the schema is a good one, the engine says.
    """
    if not isinstance(response_format, Mapping):
        raise _unusable(f"{str(response_format)[:80]!r} is no JSON object")
    fields = cast("Mapping[str, Any]", response_format)
    match fields.get("type"):
        case "json_object":
            return None
        case "json_schema":
            nested = fields.get("json_schema")
            schema: object = cast("Mapping[str, Any]", nested).get("schema") if isinstance(nested, Mapping) else None
            if not isinstance(schema, dict):
                raise _unusable("there is no schema in it, under json_schema.schema")
            return cast("dict[str, JsonValue]", schema)
        case other:
            raise _unusable(f"there is no type {other!r}")


def add_schema_name(response_format: Mapping[str, JsonValue]) -> dict[str, Any]:
    """Return the format as Chat Completions takes it, the schema named. Raises ModelUnavailable."""
    if schema_of(response_format) is None:
        return dict(response_format)
    json_schema = cast("Mapping[str, JsonValue]", response_format["json_schema"])
    return {**response_format, "json_schema": {"name": NAME, **json_schema}}


def format_in_id(response_format: Mapping[str, JsonValue] | None) -> str:
    """Return the suffix that a response format adds to a model's id; empty where there is no format."""
    if response_format is None:
        return ""
    # not sorted: a model writes the fields of an answer in the order of the schema
    return f"@format={hashlib.sha256(json.dumps(response_format).encode()).hexdigest()[:8]}"


def _check_format(response_format: object) -> object:
    if isinstance(response_format, str):
        with suppress(ValueError):  # what is no JSON is refused below, in words
            response_format = json.loads(response_format)
    if response_format is not None:
        schema_of(response_format)
    return response_format


ResponseFormat = Annotated[dict[str, JsonValue] | None, BeforeValidator(_check_format)]
"""The field of a backend's model_args; its JSON will do too, whose order no store and no key changes."""


def _unusable(why: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"response_format: {why}; write {EXAMPLE}. On a command line, give all of model_args as one JSON object."
    )
