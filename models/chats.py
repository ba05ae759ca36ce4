"""Opens a chat backend by its name, the one that users write after `--vlm`, `--llm` or `--annotator_model`."""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr

from models.errors import ModelUnavailable
from models.protocols import Chat

NAMES = (
    "`openai:MODEL` (any OpenAI-compatible endpoint), `responses:MODEL` (the same through the Responses API, where "
    "there is one), `hf:FOLDER` or `hf:NAME@REVISION` (transformers, in this process), `replay:FILE` (recorded "
    "answers), `scripted` or `scripted:FILE`"
)


def open_chat(
    name: str, *, base_url: str | None = None, api_key: SecretStr | None = None, timeout_s: float = 120.0
) -> Chat:
    """The backend called `name`. Raises ModelUnavailable if there is none of that name.

    base_url, api_key, timeout_s: for backends behind an endpoint; None is OpenAI's own, without a key.
    """
    backend, _, rest = name.partition(":")
    if backend == "openai" and rest:
        from models.openai import OpenAIChat

        return OpenAIChat(rest, base_url=base_url, api_key=api_key, timeout_s=timeout_s)
    if backend == "responses" and rest:
        from models.openai_responses import OpenAIResponses

        return OpenAIResponses(rest, base_url=base_url, api_key=api_key, timeout_s=timeout_s)
    if backend == "hf" and rest:
        return _open_local(rest)
    if backend == "replay" and rest:
        from models.replay import ReplayChat

        return ReplayChat(Path(rest))
    if backend == "scripted":
        from models.scripted import ScriptedChat, read_rules

        return ScriptedChat(read_rules(Path(rest)) if rest else ())
    raise ModelUnavailable(f"There is no model backend called {name!r}; give {NAMES}.")


def is_in_process(name: str) -> bool:
    """True where the weights of the backend called `name` are loaded in the process that asks it."""
    return name.startswith("hf:")


def _open_local(name: str) -> Chat:
    from models.vision_weights import sees

    if sees(name):
        from models.vision_language import HFVision

        return HFVision(name)
    from models.causal_lm import CausalLM

    return CausalLM(name)
