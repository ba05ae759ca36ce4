"""A request as the text that a local model reads: through the model's own chat template, or as it stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from models.model_errors import NoChatTemplate, RequestRefused
from models.prompts import plain_text, raw_prompt, refuse_images
from models.protocols import ChatRequest

WITHOUT = (
    "take a model that is made to be asked, or send the prompts as they stand (`--apply_chat_template False` of eval "
    "run, `--set prompts.template=false` of lever run)"
)

Turn = dict[str, Any]
Fold = Callable[[list[Turn]], list[Turn]]
"""Turns without one of the system, whose words stand elsewhere; the same list where there is none."""


class Rendered(NamedTuple):
    """What the model reads."""

    text: str
    is_whole: bool
    """True when the template has written the special tokens; False: the tokenizer adds its own."""


def render(tokenizer: Any, request: ChatRequest) -> Rendered:
    """The text of a request.

    The system's words come first; a template that takes none gets them at the head of the first question.
    Raises RequestRefused, and NoChatTemplate if the tokenizer has no such template.
    """
    if not request.messages:
        raise RequestRefused("The request has no messages; give at least one.")
    if request.template is False:
        return Rendered(raw_prompt(request), is_whole=False)
    refuse_images(request, "A text model")
    template = template_of(tokenizer, request.template)
    turns = [{"role": message.role, "content": plain_text(message)} for message in request.messages]
    turns.sort(key=lambda turn: turn["role"] != "system")  # stable: the others keep their order
    return Rendered(apply_template(tokenizer, turns, template, fold=_without_system), is_whole=True)


def template_of(tokenizer: Any, wanted: bool | str) -> str:
    """The text of a template. Raises NoChatTemplate: without one, no request of the run can work."""
    known = tokenizer.chat_template
    if not known:
        raise NoChatTemplate(f"the tokenizer of {tokenizer.name_or_path} has no chat template; {WITHOUT}")
    named: dict[str, str] = known if isinstance(known, dict) else {"default": known}
    name = "default" if wanted is True else str(wanted)
    if name not in named:
        raise NoChatTemplate(
            f"the tokenizer of {tokenizer.name_or_path} has no chat template {name!r}, it has "
            f"{', '.join(sorted(named))}; name one of these, or {WITHOUT}"
        )
    return named[name]


def apply_template(tokenizer: Any, turns: list[Turn], template: str, *, fold: Fold) -> str:
    """The text of turns; a template that refuses the system's gets them folded. Raises RequestRefused."""
    from jinja2 import TemplateError

    try:
        return _rendered(tokenizer, turns, template)
    except (TemplateError, TypeError, ValueError) as error:
        folded = fold(turns)
        if len(folded) < len(turns):
            return apply_template(tokenizer, folded, template, fold=fold)
        raise RequestRefused(f"The model's chat template refuses these messages ({error}); {WITHOUT}.") from error


def _rendered(tokenizer: Any, turns: list[Turn], template: str) -> str:
    goes_on = turns[-1]["role"] == "assistant"
    return tokenizer.apply_chat_template(
        turns,
        chat_template=template,
        tokenize=False,
        add_generation_prompt=not goes_on,
        continue_final_message=goes_on,
    )


def _without_system(turns: list[Turn]) -> list[Turn]:
    """The system's words at the head of the first turn of the user."""
    said = [turn["content"] for turn in turns if turn["role"] == "system"]
    others = [turn for turn in turns if turn["role"] != "system"]
    if not said or not others:
        return turns
    return [{**others[0], "content": "\n\n".join([*said, others[0]["content"]])}, *others[1:]]
