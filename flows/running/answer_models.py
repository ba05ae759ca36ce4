"""Models by name: those that answer questions on this machine, and those from the user's own file."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from flows.running.settings import OPENAI_MODEL, OPENAI_SMALL_MODEL, Settings, settings
from models.backends import backends, revision_of, spellings
from models.model_errors import ModelUnavailable
from models.registry import find_entry, spelled

if TYPE_CHECKING:
    from tasks.rag.answering.assistant import Assistant
    from tasks.rag.answering.wiring import Models
    from tasks.rag.answers import AnswerSettings


def open_assistant(
    index: Path,
    *,
    llm: str | None = None,
    reranker: str | None = None,
    answers: AnswerSettings | None = None,
    patient: bool = False,
) -> AbstractContextManager[Assistant]:
    """Open an assistant over the current version of `index`; no model is loaded before it is needed.

    patient: asks an unavailable model as often as a batch does. Raises StorageError, ModelUnavailable.
    """
    from tasks.rag.answering.assistant import open_assistant as opened

    return opened(index, models=models_of(llm), patient=patient, reranker=reranker, answers=answers)


def with_model(assistant: Assistant, llm: str) -> Assistant:
    """Return an assistant over the same open index that another model answers for. Raises ModelUnavailable."""
    from tasks.rag.answering.wiring import open_wiring

    other = copy(assistant)
    other.desk = replace(assistant.desk, wiring=open_wiring(models_of(llm), patient=False))
    return other


def models_of(llm: str | None, configured: Settings | None = None) -> Models:
    """Return the models of `none`, `local`, `openai` or a model's name; None: TRIVET_LLM. Raises ModelUnavailable."""
    from tasks.rag.answering.wiring import Models

    read = configured or settings()
    word = spelled(llm or read.llm)
    name, address = word, "set TRIVET_LLM_BASE_URL to its address (http://127.0.0.1:8000/v1)"
    if word == "none":
        return Models()
    if word == "openai":
        if not (read.openai_api_key or read.openai_base_url):
            raise ModelUnavailable(
                "--llm openai needs a key: set OPENAI_API_KEY, or OPENAI_BASE_URL to a server of your own"
            )
        return Models(wiring="openai", large=f"openai:{OPENAI_MODEL}", small=f"openai:{OPENAI_SMALL_MODEL}")
    if word == "local":
        if not read.llm_model:
            needs = f"set TRIVET_LLM_MODEL to the name that your server knows, and {address.removeprefix('set ')}"
            raise ModelUnavailable(f"--llm local needs a model: {needs}")
        name = spelled(read.llm_model)
        name = name if name.partition(":")[0] in backends() else f"openai:{name}"
    elif name.partition(":")[0] not in backends():
        raise ModelUnavailable(f"there is no --llm {name!r}; give none, local, openai, or a model: {spellings()}")
    # arguments follow a name as JSON: `openai:NAME,{"base_url": …}`
    has_endpoint = name.partition(":")[0] not in ("openai", "responses") or "base_url" in name.partition(",{")[2]
    has_endpoint |= bool(read.llm_base_url or read.openai_base_url)
    # OpenAI's own address is the default of a client, and not a local place
    if not (has_endpoint or (read.openai_api_key and word != "local")):
        remedy = address if word == "local" else f"{address}, or OPENAI_API_KEY for OpenAI's own"
        raise ModelUnavailable(f"--llm {word} needs a server: {remedy}")
    return Models(wiring="local", large=name, small=name, revision=revision_of(name))


def resolve_name(name: str) -> str:
    """Return `name`, or what it stands for in the user's file, unknown to steps. Raises ValueError, for validators."""
    try:
        return spelled(name)
    except ModelUnavailable as error:
        raise ValueError(str(error)) from error


def add_price(values: Any, *, model_field: str) -> Any:
    """Return raw values with the price of the model that `model_field` names, where a limit on the cost has none."""
    fields: Mapping[str, Any] = cast("Mapping[str, Any]", values) if isinstance(values, Mapping) else {}
    spending, name = fields.get("spending"), fields.get(model_field)
    if not (isinstance(spending, Mapping) and isinstance(name, str)):
        return values
    limits = cast("Mapping[str, Any]", spending)
    if limits.get("max_cost") is None or limits.get("prices"):
        return values
    try:
        entry = find_entry(name)
    except ModelUnavailable:
        return values  # `resolve_name` refuses it under the name of its field
    return {**fields, "spending": {**limits, "prices": entry.price.model_dump()}} if entry and entry.price else values
