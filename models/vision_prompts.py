"""A request with pictures as the text that a local model reads: through its own chat template, or as it stands."""

from __future__ import annotations

from models.chat_templates import WITHOUT, Rendered, Turn, apply_template, template_of
from models.model_errors import RequestRefused
from models.prompt_pictures import pictures_of
from models.prompts import sendable
from models.protocols import ChatRequest, Image, Message, Text
from models.vision_sight import Sight


def render_seen(sight: Sight, request: ChatRequest) -> Rendered:
    """The text of a request, with one placeholder for each picture, where it stands among the words.

    The system's words come first; a template that takes none gets them at the head of the first question.
    Raises RequestRefused, and NoChatTemplate if the tokenizer has no such template.
    """
    if not request.messages:
        raise RequestRefused("The request has no messages; give at least one.")
    if request.template is False:
        rendered = Rendered("\n\n".join(_as_it_stands(message, sight) for message in request.messages), is_whole=False)
    else:
        tokenizer = sight.processor.tokenizer
        template = template_of(tokenizer, request.template)
        text = apply_template(tokenizer, _turns(request), template, fold=_without_system)
        rendered = Rendered(text, is_whole=True)
    _check_placeholders(rendered.text, request, sight)
    return rendered


def _as_it_stands(message: Message, sight: Sight) -> str:
    return "".join(sendable(part.text) if isinstance(part, Text) else sight.written for part in message.content)


def _turns(request: ChatRequest) -> list[Turn]:
    turns = [
        {"role": message.role, "content": [_part(part) for part in message.content]} for message in request.messages
    ]
    return sorted(turns, key=lambda turn: turn["role"] != "system")  # stable: the others keep their order


def _part(part: Text | Image) -> dict[str, str]:
    return {"type": "text", "text": sendable(part.text)} if isinstance(part, Text) else {"type": "image"}


def _without_system(turns: list[Turn]) -> list[Turn]:
    """The system's words at the head of the first turn of the user."""
    said = [part for turn in turns if turn["role"] == "system" for part in turn["content"]]
    others = [turn for turn in turns if turn["role"] != "system"]
    if not said or not others:
        return turns
    return [{**others[0], "content": [*said, {"type": "text", "text": "\n\n"}, *others[0]["content"]]}, *others[1:]]


def _check_placeholders(text: str, request: ChatRequest, sight: Sight) -> None:
    pictures = len(list(pictures_of(request.messages)))
    found = text.count(sight.token)
    if found != pictures:
        raise RequestRefused(
            f"The prompt has {found} places for {pictures} pictures: its words hold {sight.token}, which stands for a "
            "picture to this model, or its chat template leaves pictures out; take that out of the words, or "
            f"{WITHOUT}."
        )
