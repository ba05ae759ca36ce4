"""The resources that steps of this process are configured with; `flows` provides them when a step first needs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr


@dataclass(frozen=True)
class Sent:
    """A step on its way to a pool."""

    step: str
    """Module and name, `tasks.rag.steps.embed`."""
    key: str
    """Its cache key: a child that is under way for another parent is waited for, not started twice."""
    inputs: Mapping[str, Any]
    name: str
    """Name of the child in the UI."""


@dataclass(frozen=True)
class Resources:
    """Where this process keeps its data, and how it reaches models and secrets."""

    home: Path
    store: str
    database_url: str | None
    gpu_deployment: str | None
    send: Callable[[Sent, str], Any]
    """(step, deployment) → the step's result on the pool of that deployment; raises what the step raises there."""
    parse_log: Path | None
    vlm_base_url: str | None
    """OpenAI-compatible endpoint of vision models."""
    llm_base_url: str | None
    """… of local language models."""
    llm_timeout_s: float
    """Longest silence of a language model."""
    openai_base_url: str | None
    """… of all other models and embedders."""
    api_key: SecretStr | None
    secret: Callable[[str], str | None]
    """The value of an environment variable that a user named, such as `--password-env NAME`; never kept."""


class NotConfigured(RuntimeError):
    """A step was used in a process that did not import its flow."""


_sources: list[Callable[[], Resources]] = []
_configured: list[Resources] = []


def configured_by(source: Callable[[], Resources]) -> None:
    """Take the resources from `source` when a step first needs them."""
    _sources[:] = [source]


def set_resources(made: Resources) -> bool:
    """Put these in place of the present resources; True where that is a change."""
    changed = _configured != [made]
    _configured[:] = [made]
    return changed


def resources() -> Resources:
    """The resources of this process. Raises NotConfigured."""
    if not _configured:
        if not _sources:
            raise NotConfigured("no resources: import the flow module (flows.rag …) before its steps run")
        _configured[:] = [_sources[0]()]
    return _configured[0]
