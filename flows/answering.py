"""Opens what answers questions, as the settings of this machine say."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from flows.settings import configure_steps, settings
from models.errors import ModelUnavailable

if TYPE_CHECKING:
    from tasks.rag.answering.assistant import Assistant
    from tasks.rag.answering.graph import AnswerSettings
    from tasks.rag.answering.wiring import Models, WiringName


def open_assistant(
    index: Path,
    *,
    llm: WiringName | None = None,
    reranker: str | None = None,
    answers: AnswerSettings | None = None,
    patient: bool = False,
) -> AbstractContextManager[Assistant]:
    """An assistant over the current generation of `index`; no model is loaded before it is needed.

    llm, reranker: None is what the settings say. patient: asks a model that is away as often as a batch does.
    Raises StorageError, ModelUnavailable.
    """
    configure_steps()
    from tasks.rag.answering.assistant import open_assistant as opened

    return opened(
        index,
        models=models_of(llm),
        patient=patient,
        reranker=reranker or settings().reranker,
        answers=answers,
    )


def models_of(llm: WiringName | None) -> Models:
    """The names of the models that a wiring uses here; None is the wiring that the settings name.

    Raises ModelUnavailable if there is none of that kind.
    """
    from tasks.rag.answering.wiring import Models

    match llm or settings().llm:
        case "none":
            return Models()
        case "local":
            if not (name := settings().llm_model):
                raise ModelUnavailable(
                    "--llm local needs a model: set TRIVET_LLM_MODEL to the name that your server knows, and "
                    "TRIVET_LLM_BASE_URL to its address (http://127.0.0.1:8000/v1)"
                )
            if not (settings().llm_base_url or settings().openai_base_url or name.startswith("scripted")):
                # OpenAI's own address is the default of a client, and no place for what is asked locally
                raise ModelUnavailable(
                    "--llm local needs a server: set TRIVET_LLM_BASE_URL to its address (http://127.0.0.1:8000/v1)"
                )
            known = name if name.partition(":")[0] in ("openai", "responses", "scripted") else f"openai:{name}"
            return Models(wiring="local", large=known, small=known)
        case "openai":
            if not (settings().openai_api_key or settings().openai_base_url):
                raise ModelUnavailable(
                    "--llm openai needs a key: set OPENAI_API_KEY, or OPENAI_BASE_URL to a server of your own"
                )
            large, small = settings().openai_model, settings().openai_small_model
            return Models(wiring="openai", large=f"responses:{large}", small=f"responses:{small}")
