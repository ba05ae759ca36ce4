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
Role = Literal["classify", "compute", "answer", "rewrite"]


class Models(Record):
    """The names of the models, as a flow passes them to its steps."""

    wiring: WiringName = "none"
    large: str | None = None
    """Writes the answer; a name for models.backends.open_chat."""
    small: str | None = None
    """Names the kind of question and rewrites the answer."""
    revision: str = ""
    """Fingerprint of local weights or a local script: changed files under the same name are another model."""

    @property
    def in_process(self) -> bool:
        """True when a model's weights are loaded in the process that asks, so that a device is busy with it."""
        return any(is_in_process(name) for name in (self.large, self.small) if name)


class Model(NamedTuple):
    """A model with its rate limits and retries."""

    chat: Chat
    limits: Limits


class Wiring(NamedTuple):
    """The model of each role of the graph; None: the role is skipped."""

    large: Model | None = None
    """Writes the answer."""
    small: Model | None = None
    """Names the kind of question and rewrites the answer."""
    responses: ResponseStore | None = None

    def ask(self, role: Role, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ModelReply:
        """The answer of the model of that role. Raises models.model_errors.ModelError."""
        model = self.large if role in ("answer", "compute") else self.small
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
    """The wiring of these names; patient: whether an unavailable model is retried for long.

    Raises models.model_errors.ModelUnavailable.
    """
    if models.wiring == "none":
        return WITHOUT_MODEL
    local = models.wiring == "local"
    chosen: dict[str, Any] = {"local": local, "revision": models.revision}
    large, small = (
        Model(resources.language(name, **chosen), resources.call_limits(name, patient=patient)) if name else None
        for name in (models.large, models.small)
    )
    return Wiring(large=large, small=small, responses=resources.responses())
