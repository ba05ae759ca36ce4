"""The models that answer: none (the documents' own sentences), a local one, or OpenAI's large and small one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from models.backends import is_in_process
from models.protocols import Chat, ChatRequest
from storage.records import Record
from tasks import resources
from tasks.calls import Limits, ResponseStore, ask
from tasks.rag.answers import ModelCall

WiringName = Literal["none", "local", "openai"]
Role = Literal["classify", "answer", "rewrite"]


class Models(Record):
    """Names of the models, as a flow passes them to its steps."""

    wiring: WiringName = "none"
    large: str | None = None
    """Name of the model that writes the answer, as models.backends.open_chat takes it."""
    small: str | None = None
    """Name of the model that classifies the question and rewrites the answer."""
    revision: str = ""
    """Fingerprint of local weights or a local script: changed files under the same name are another model."""

    @property
    def in_process(self) -> bool:
        """Whether a model's weights are loaded in the process that asks, so that a device is busy with it."""
        return any(is_in_process(name) for name in (self.large, self.small) if name)


class Model(NamedTuple):
    """A model with its rate limits and retries."""

    chat: Chat
    limits: Limits


class Wiring(NamedTuple):
    """The models by what they do in the graph; a role whose model is None is skipped."""

    large: Model | None = None
    """The model that writes the answer."""
    small: Model | None = None
    """The model that classifies the question and rewrites the answer."""
    responses: ResponseStore | None = None

    def ask(self, role: Role, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ModelReply:
        """Return the answer of the model that has this role. Raises models.model_errors.ModelError.

        on_text: called with the whole text so far while the model writes.
        """
        model = self.large if role == "answer" else self.small
        assert model is not None, role
        assert self.responses is not None, role
        answer = ask(model.chat, request, responses=self.responses, limits=model.limits, on_text=on_text)
        response = answer.response
        call = ModelCall(
            role=role,
            model=model.chat.id,
            key=answer.key,
            cached=answer.cached,
            prompt_tokens=response.prompt_tokens,
            completion_tokens=response.completion_tokens,
        )
        return ModelReply(response.text, call, response.finish_reason)


class ModelReply(NamedTuple):
    """A model's answer and the call that gave it."""

    text: str
    call: ModelCall
    finish_reason: str


WITHOUT_MODEL = Wiring()


def open_wiring(models: Models, *, patient: bool) -> Wiring:
    """Open the models; patient: an unavailable one is retried for long. Raises models.model_errors.ModelUnavailable."""
    if models.wiring == "none":
        return WITHOUT_MODEL
    local = models.wiring == "local"
    options: dict[str, Any] = {"local": local, "revision": models.revision}
    large, small = (
        Model(resources.language(name, **options), resources.call_limits(name, patient=patient)) if name else None
        for name in (models.large, models.small)
    )
    return Wiring(large=large, small=small, responses=resources.responses())
