"""Models by the names that curator gives them, which are LiteLLM's: `provider/model`, asked over the OpenAI protocol.

bespokelabs-curator itself is not used: it pins older libraries. Every provider here has an OpenAI-compatible endpoint.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import JsonValue, SecretStr

from models.model_errors import ModelUnavailable
from models.openai import AS_ASKED, LEAST, OpenAIChat, Thinking


class Provider(NamedTuple):
    """The address of a provider's endpoint, and the environment variables that hold its key."""

    base_url: str
    variables: Sequence[str]  # environment variables that may hold its key, the usual one first
    asks_for_a_key: bool = True
    ignores: Sequence[str] = ()  # fields of a request that it takes and does not heed


_by_provider = yaml.safe_load(Path(__file__).with_name("providers.yaml").read_text("utf-8"))
PROVIDERS = {name: Provider(**about) for name, about in _by_provider.items()}


def parse_litellm_name(name: str) -> tuple[str, str]:
    """Return provider and model of `lm_studio/NAME`, `hosted_vllm/NAME` …; a name without a provider is OpenAI's.

    Raises ModelUnavailable for a provider that is not known here.
    """
    provider, slash, model = name.partition("/")
    if not slash:
        provider, model = "openai", name
    if provider not in PROVIDERS or not model:
        raise ModelUnavailable(
            f"{name!r} is no provider/model; the providers are {', '.join(sorted(PROVIDERS))}. At a server of your "
            "own, write hosted_vllm/ or openai/ before the model's name, and api_base in model_args."
        )
    return provider, model


class ProviderAccess(NamedTuple):
    """Address and key by which a model is reached when neither arguments nor options name them."""

    base_url: str | None  # None: where its provider listens
    api_key: SecretStr | None


def find_access(name: str, of_openai: ProviderAccess) -> ProviderAccess:
    """Return the address and key of a model's provider; a key is sent to its own provider alone.

    of_openai: holds for `openai/…` alone. Raises ModelUnavailable.
    """
    provider, _ = parse_litellm_name(name)
    if provider == "openai":
        return of_openai
    keys = (os.environ.get(variable) for variable in PROVIDERS[provider].variables)
    return ProviderAccess(None, next((SecretStr(value) for value in keys if value), None))


class CuratorChat(OpenAIChat):
    """A model by LiteLLM's name, at its provider or at `base_url`.

    response_format: the format of each answer (models.response_format). endpoint: timeout_s.
    A seed is left out where the server has refused it by name (Gemini does), and `sent` shows that.
    Raises ModelUnavailable where the provider asks for a key and there is none, and for what it would not heed.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: SecretStr | None = None,
        thinking: Thinking = AS_ASKED,
        response_format: Mapping[str, JsonValue] | None = None,
        **endpoint: Any,
    ) -> None:
        provider, model = parse_litellm_name(name)
        settings = PROVIDERS[provider]
        if base_url in (None, settings.base_url):  # a server of one's own may heed what the provider does not
            effort = thinking.effort not in (None, LEAST)
            requested = {"response_format": bool(response_format), "reasoning_effort": effort}
            if idle := [field for field in settings.ignores if requested.get(field)]:
                raise ModelUnavailable(
                    f"{name}: the OpenAI endpoint of {provider} takes {' and '.join(idle)} and does not heed it; leave "
                    "it out"
                )
            if settings.asks_for_a_key and not api_key:
                raise ModelUnavailable(
                    f"{name}: {provider} asks for a key and none is set; set {' or '.join(settings.variables)}, or "
                    "name the variable that has it: --model_args api_key_env=NAME"
                )
        self.base_url = base_url or settings.base_url
        endpoint |= {"base_url": self.base_url, "api_key": api_key}
        super().__init__(model, thinking=thinking, response_format=response_format, **endpoint)
        self.id = f"curator:{name}{self.id.removeprefix(f'openai:{model}')}"
        self._optional.add("seed")
