"""The words of a request without a chat template, alike for every backend."""

from __future__ import annotations

from models.model_errors import RequestRefused
from models.protocols import ChatRequest, Image, Message, Text


def raw_prompt(request: ChatRequest) -> str:
    """The texts of all messages, a blank line between two. Raises RequestRefused for a request with images."""
    refuse_images(request, "A prompt without a chat template")
    return "\n\n".join(plain_text(message) for message in request.messages)


def refuse_images(request: ChatRequest, what: str) -> None:
    """Raises RequestRefused if there is an image in the request."""
    if any(isinstance(part, Image) for message in request.messages for part in message.content):
        raise RequestRefused(f"{what} takes no images; give a model that sees, or leave the images out.")


def plain_text(message: Message) -> str:
    """The words of a message, without its images."""
    return sendable("".join(part.text for part in message.content if isinstance(part, Text)))


def sendable(text: str) -> str:
    """The text with `?` for lone surrogates: UTF-8 has none, and a question from a shell may."""
    return text.encode("utf-8", "replace").decode()
