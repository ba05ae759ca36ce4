"""What a flow is told of a model that has a name in the user's own file: steps get what it means, and its price."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from models.model_errors import ModelUnavailable
from models.registry import named, spelled


def spelled_out(name: str) -> str:
    """`name`, or what it stands for in the file: no step knows that file. Raises ValueError, for validators."""
    try:
        return spelled(name)
    except ModelUnavailable as error:
        raise ValueError(str(error)) from error


def priced(given: Any, *, by: str) -> Any:
    """What a flow is told, with the price of the model in its field `by` where a limit on the cost has none."""
    told: Mapping[str, Any] = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {}
    spending, name = told.get("spending"), told.get(by)
    if not (isinstance(spending, Mapping) and isinstance(name, str)):
        return given
    limits = cast("Mapping[str, Any]", spending)
    if limits.get("max_cost") is None or limits.get("prices"):
        return given
    try:
        entry = named(name)
    except ModelUnavailable:
        return given  # `spelled_out` refuses it under the name of its field
    return {**told, "spending": {**limits, "prices": entry.price.model_dump()}} if entry and entry.price else given
