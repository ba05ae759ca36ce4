"""The resources of the steps of this process: what they are configured with, and what they open, each once."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, wraps
from importlib import import_module
from inspect import signature
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pydantic import SecretStr

    from models.protocols import Chat, Embedder, Reranker
    from storage.artifacts import Artifacts, Results
    from storage.embeddings import EmbeddingCache
    from storage.evaluations import Evaluations
    from storage.incidents import Incidents
    from storage.lineage import Lineage
    from storage.responses import OptionalResponses, Responses
    from storage.sessions import Sessions
    from tasks.budget import Budget, Spending
    from tasks.calls import Limits

P = ParamSpec("P")
R = TypeVar("R")

TEXTS_PER_SAVE = 32
"""Texts whose vectors a kill loses at most."""


@dataclass(frozen=True)
class SentStep:
    """A step that is sent to the work pool of a deployment."""

    step: str
    """Module and name of the step: `tasks.rag.steps.embed`."""
    key: str
    """Cache key of the step: a child run that is under way under it for another parent is waited for, not started
    twice."""
    inputs: Mapping[str, Any]
    name: str
    """Name under which the child run is shown in the UI."""


@dataclass(frozen=True)
class Resources:
    """The folders, addresses and secrets that the steps of this process work with."""

    home: Path
    store: str
    database_url: str | None
    gpu_deployment: str | None
    send: Callable[[SentStep, str], Any]
    """Called with a step and a deployment; runs the step on that pool, and returns its result or raises its error."""
    llm_base_url: str | None
    """Address of the OpenAI-compatible endpoint of local language models; None for `openai_base_url`."""
    openai_base_url: str | None
    """Address of the OpenAI-compatible endpoint of all other models and embedders; None for OpenAI's own."""
    api_key: SecretStr | None
    program: Callable[[], str]
    """Version of the program, and its commit where it has one."""


READ_LOG = Path("logs", "documents.log")
"""File below the home that gets `start read SHA256` and `finish read SHA256` of each document that is read anew."""
LLM_TIMEOUT_S = 60.0
"""Longest silence of a language model whose arguments name no `timeout`."""


class NotConfigured(RuntimeError):
    """A step was used in a process that did not import its flow."""


_sources: list[Callable[[], Resources]] = []
_configured: list[Resources] = []
_budgets: dict[str, Budget] = {}
"""Budgets by the flow run that spends them."""
_forget: list[Callable[[], None]] = []  # what empties each cache


def configured_by(source: Callable[[], Resources]) -> None:
    """Take the resources from `source` when a step first needs them."""
    _sources[:] = [source]


def resources() -> Resources:
    """Return the resources of this process; imports `flows` if need be. Raises NotConfigured where that fails."""
    if not _configured:
        if not _sources:
            with suppress(ImportError):  # a worker of a cluster unpickles a step by its name before it meets the flow
                import_module("flows")
        if not _sources:
            raise NotConfigured("no resources: import the flow module (flows.rag …) before its steps run")
        _configured[:] = [_sources[0]()]
    return _configured[0]


def open_once(open_: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a cache by its arguments, until other resources are configured.

    One thread opens at a time: `cache` alone would let two threads open two.
    """
    cached, shape, opening = cache(open_), signature(open_), RLock()
    _forget.append(cached.cache_clear)

    @wraps(open_)
    def opened(*args: P.args, **kwargs: P.kwargs) -> R:
        bound = shape.bind(*args, **kwargs)
        bound.apply_defaults()  # named or not, given or not: one set of arguments
        with opening:
            return cached(*bound.args, **bound.kwargs)

    return opened


def configure(new: Resources) -> None:
    """Set the resources of this process; what was opened stays open if they are the present ones."""
    if _configured != [new]:
        _configured[:] = [new]
        forget()


def forget() -> None:
    """Have everything opened anew when it is next asked for, as another process would."""
    for clear in _forget:
        clear()


@open_once
def artifacts() -> Artifacts:
    """Return the artifact store of this process."""
    from storage.artifacts import Artifacts

    return Artifacts.open(resources().store, cache=resources().home / "cache" / "objects")


@open_once
def results() -> Results:
    """Return the records of finished steps."""
    from storage.artifacts import Results

    return Results.of_store(artifacts(), resources().home)


@open_once
def lineage() -> Lineage:
    """Return the lineage of finished steps: in the database that was configured, else in a file of this home."""
    from storage.lineage import FILE, Lineage

    return Lineage(_database if resources().database_url else None, resources().home / FILE)


@open_once
def responses() -> Responses:
    """Return the response store of this process; PostgreSQL starts with the first question."""
    from storage.responses import Responses

    return Responses(_database)


@open_once
def optional_responses() -> OptionalResponses:
    """Return the response store of runs that go on without it: while the database is away, it finds nothing."""
    from storage.responses import OptionalResponses

    return OptionalResponses(responses(), home=resources().home)


@open_once
def sessions() -> Sessions:
    """Return the conversations of this installation; PostgreSQL starts with the first that is looked up or kept."""
    from storage.sessions import Sessions

    return Sessions(_database)


@open_once
def evaluations() -> Evaluations:
    """Return the evaluation tables of this installation."""
    from storage.evaluations import Evaluations

    return Evaluations(_database)


@open_once
def incidents() -> Incidents:
    """Return the incidents and pinned values of nights."""
    from storage.incidents import Incidents

    return Incidents(_database)


def _database() -> str:
    """Return the address of the database, which is started if it is the embedded one."""
    from storage.connections import locate

    return locate(resources().database_url, home=resources().home)


@open_once
def embedding_cache() -> EmbeddingCache:
    """Return the cache of vectors of texts that this machine has embedded; all threads share its connection."""
    from storage.embeddings import EmbeddingCache

    return EmbeddingCache.below(resources().home)


def embed_texts(
    embedder: Embedder, cache: EmbeddingCache, texts: Sequence[str], on_progress: Callable[[int], None] = lambda _: None
) -> NDArray[np.float16]:
    """Return the vectors of texts, (len(texts), dimension), in their order; equal texts are computed once.

    on_progress: called with the number of distinct texts done since its last call, those found in the cache first.
    A kill loses at most the last 32 texts. Raises what the embedder and the cache raise.
    """
    import numpy as np

    row_of = {text: row for row, text in enumerate(dict.fromkeys(texts))}  # each text once, in order of first mention
    rows = np.empty((len(row_of), embedder.dimension), np.float16)
    cached = cache.get_many(embedder.id, list(row_of))
    for text, vector in cached.items():
        rows[row_of[text]] = vector
    on_progress(len(cached))
    missing = [text for text in row_of if text not in cached]
    for start in range(0, len(missing), TEXTS_PER_SAVE):
        batch = missing[start : start + TEXTS_PER_SAVE]
        vectors = embedder.embed(batch).astype(np.float16)
        cache.put_many(embedder.id, batch, vectors)
        rows[[row_of[text] for text in batch]] = vectors
        on_progress(len(batch))
    return rows[[row_of[text] for text in texts]]


@open_once
def vision(name: str, *, revision: str = "") -> Chat:
    """Return the vision model called `name`, opened once for all threads. Raises models.model_errors.ModelUnavailable.

    revision: what lies on this disk under that name now (models.backends.revision_of), or answers at an endpoint
    (tasks.calls.identify_endpoint) and is stored apart; another one is opened anew.
    """
    from models.backends import open_chat
    from models.openai import OpenAIChat

    chat = open_chat(name, base_url=resources().openai_base_url, api_key=resources().api_key)
    if revision and isinstance(chat, OpenAIChat):
        chat.id += f"@{revision}"
    return chat


@open_once
def language(name: str, *, local: bool, revision: str = "") -> Chat:
    """Return the language model `name`, opened once for all threads; `local`: at the endpoint of local models, if any.

    revision: as of `vision`. Raises models.model_errors.ModelUnavailable.
    """
    from models.backends import open_chat

    del revision  # part of the key under which the model is kept
    settings = resources()
    base_url = (settings.llm_base_url if local else None) or settings.openai_base_url
    return open_chat(name, base_url=base_url, api_key=settings.api_key, timeout_s=LLM_TIMEOUT_S)


@cache
def call_limits(name: str, *, patient: bool = True) -> Limits:
    """Return rates and retries of the model called `name`, one object for all threads of this process.

    patient: False where somebody waits for the answer.
    """
    from models.registry import rates_of
    from tasks.calls import WHILE_SOMEBODY_WAITS, CallSettings, Limits

    settings = CallSettings() if patient else WHILE_SOMEBODY_WAITS
    return Limits(settings.model_copy(update=rates_of(name)), rng=random.Random())


def budget(run: str, spending: Spending) -> Budget:
    """Return the budget of a run, shared by all its steps in this process; the first `spending` given for it stays."""
    from tasks.budget import Budget

    return _budgets.setdefault(run, Budget(spending))  # the first one stays: what its steps have spent counts


@open_once
def embedder(name: str) -> Embedder:
    """Return the embedder called `name`, loaded once for all threads. Raises models.model_errors.ModelUnavailable."""
    from models.embedders import open_embedder

    return open_embedder(name, base_url=resources().openai_base_url, api_key=resources().api_key)


@open_once
def reranker(name: str) -> Reranker:
    """Return the cross-encoder `name`, loaded once for all threads. Raises models.model_errors.ModelUnavailable."""
    from models.embedders import open_reranker

    return open_reranker(name)
