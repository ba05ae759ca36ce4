"""Requests as the text and the pictures that a model reads, and answers up to their stops.

Pictures are PNGs alone: those of documents and datasets have been converted before.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import PIL.Image

from models.model_errors import ModelError, NoChatTemplate, RequestRefused
from models.protocols import BatchChat, ChatRequest, ChatResponse, Image, Message, Text

if TYPE_CHECKING:
    from torch import Tensor

WITHOUT = (
    "take a model that is made to be asked, or send the prompts as they stand (eval run: `--apply_chat_template False`)"
)

MOST_PIXELS = 80_000_000  # an A3 page at 600 dpi has 70 million; beyond that it is a bomb, or of no use to a model
KNOWN_SIZES = 64  # pictures that are not decoded again for their size: demonstrations come again and again

Turn = dict[str, Any]


def raw_prompt(request: ChatRequest) -> str:
    """Return the texts of all messages, a blank line between two. Raises RequestRefused for a request with images."""
    refuse_images(request, "A prompt without a chat template")
    return "\n\n".join(plain_text(message) for message in request.messages)


def refuse_images(request: ChatRequest, subject: str) -> None:
    """Raises RequestRefused if there is an image in the request. subject: that of the sentence."""
    if any(isinstance(part, Image) for message in request.messages for part in message.content):
        raise RequestRefused(f"{subject} takes no images; give a model that sees, or leave the images out.")


def plain_text(message: Message) -> str:
    """Return the words of a message, without its images."""
    return replace_surrogates("".join(part.text for part in message.content if isinstance(part, Text)))


def replace_surrogates(text: str) -> str:
    """Return the text with `?` for lone surrogates: UTF-8 has none, and a question from a shell may."""
    return text.encode("utf-8", "replace").decode()


def cut_at_stops(text: str, stops: Sequence[str]) -> str:
    """Return the text up to the first stop that is complete; all of it where there is none."""
    # by its end: word by word, a longer one that begins earlier is not yet known when a shorter one is complete
    starts = [(text.find(stop), stop) for stop in stops if stop]
    ends = [(start + len(stop), start) for start, stop in starts if start >= 0]
    return text[: min(ends)[1]] if ends else text


def settled_text(text: str, stops: Sequence[str]) -> str:
    """Return an unfinished answer's text up to a complete stop, else without an end that may begin one."""
    whole = cut_at_stops(text, stops)
    if len(whole) < len(text):
        return whole
    begun = (length for stop in stops for length in range(len(stop) - 1, 0, -1) if text.endswith(stop[:length]))
    return text[: len(text) - max(begun, default=0)]


def complete_alone(chat: BatchChat, request: ChatRequest, on_text: Callable[[str], None] | None) -> ChatResponse:
    """Answer one request as a batch of its own; `on_text` gets the answer in one piece. Raises ModelError."""
    [(_, answer)] = chat.complete_many([request])
    if isinstance(answer, ModelError):
        raise answer
    if on_text:
        on_text(answer.text)
    return answer


class Listener:
    """Passes the text of an answer on, whenever there is more of it that no stop can take back."""

    def __init__(self, on_text: Callable[[str], None], stops: Sequence[str]) -> None:
        self._on_text = on_text
        self._stops = stops
        self._heard = ""

    def __call__(self, text: str) -> None:
        """Take the whole text so far, and pass on what no stop can take back."""
        self.end(settled_text(text, self._stops))

    def end(self, text: str) -> None:
        """Take the whole answer, cut at its stops; it is passed on unless all of it was already."""
        if text != self._heard:
            self._heard = text
            self._on_text(text)


def render_prompt(tokenizer: Any, request: ChatRequest, sight: Sight | None = None) -> str:
    """Return the text of a request, with one placeholder for each picture, where it stands among the words.

    System messages come first; for a template that takes none they are put at the head of the first question.
    A last message of the assistant is continued. sight: None: takes no pictures. Raises RequestRefused, NoChatTemplate.
    """
    if not request.messages:
        raise RequestRefused("The request has no messages; give at least one.")
    if sight is None:
        refuse_images(request, "A prompt without a chat template" if request.template is False else "A text model")
    if request.template is False:
        picture = sight.written if sight else ""
        parts = (
            [part.text if isinstance(part, Text) else picture for part in message.content]
            for message in request.messages
        )
        text = "\n\n".join(replace_surrogates("".join(part)) for part in parts)
    else:
        template = template_of(tokenizer, request.template)
        turns: list[Turn] = []
        for message in request.messages:
            content = [
                {"type": "text", "text": replace_surrogates(part.text)} if isinstance(part, Text) else {"type": "image"}
                for part in message.content
            ]
            turns.append({"role": message.role, "content": content if sight else plain_text(message)})
        turns.sort(key=lambda turn: turn["role"] != "system")  # stable: the others keep their order
        text = _apply_template(tokenizer, turns, template)
    pictures = len(list(pictures_of(request.messages)))
    places = text.count(sight.token) if sight else pictures
    if sight is not None and places != pictures:
        raise RequestRefused(
            f"The prompt has {places} places for {pictures} pictures: its words hold {sight.token}, which stands for a "
            "picture to this model, or its chat template leaves pictures out; take that out of the words, or "
            f"{WITHOUT}."
        )
    return text


def template_of(tokenizer: Any, template: bool | str) -> str:
    """Return the text of a tokenizer's chat template of this name; True: its default one. Raises NoChatTemplate."""
    own_template = tokenizer.chat_template
    if not own_template:
        raise NoChatTemplate(f"the tokenizer of {tokenizer.name_or_path} has no chat template; {WITHOUT}")
    templates: dict[str, str] = own_template if isinstance(own_template, dict) else {"default": own_template}
    name = "default" if template is True else str(template)
    if name not in templates:
        raise NoChatTemplate(
            f"the tokenizer of {tokenizer.name_or_path} has no chat template {name!r}, it has "
            f"{', '.join(sorted(templates))}; name one of these, or {WITHOUT}"
        )
    return templates[name]


def _apply_template(tokenizer: Any, turns: list[Turn], template: str) -> str:
    """Return the text of turns, system messages in the first question if it refuses them. Raises RequestRefused."""
    from jinja2 import TemplateError

    goes_on = turns[-1]["role"] == "assistant"
    options: dict[str, Any] = {"add_generation_prompt": not goes_on, "continue_final_message": goes_on}
    try:
        return tokenizer.apply_chat_template(turns, chat_template=template, tokenize=False, **options)
    except (TemplateError, TypeError, ValueError) as error:
        instructions = [turn["content"] for turn in turns if turn["role"] == "system"]
        dialogue = [turn for turn in turns if turn["role"] != "system"]
        if not instructions or not dialogue:
            raise RequestRefused(f"The model's chat template refuses these messages ({error}); {WITHOUT}.") from error
    # the system's words at the head of the first turn; there are none left then, so a second refusal is final
    first = dialogue[0]["content"]
    if isinstance(first, str):
        content = "\n\n".join([*instructions, first])
    else:
        content = [*chain(*instructions), {"type": "text", "text": "\n\n"}, *first]
    return _apply_template(tokenizer, [{**dialogue[0], "content": content}, *dialogue[1:]], template)


def pictures_of(messages: Sequence[Message]) -> Iterator[bytes]:
    """Yield the PNGs of the messages, in their order."""
    yield from (part.png for message in messages for part in message.content if isinstance(part, Image))


def open_picture(png: bytes) -> PIL.Image.Image:
    """Return the picture in RGB, read to its end; what is transparent lies on white. Raises RequestRefused."""
    with _open_png(png) as picture:
        if not picture.has_transparency_data:
            return picture.convert("RGB")
        layer = picture.convert("RGBA")
        white = PIL.Image.new("RGBA", layer.size, "white")
        return PIL.Image.alpha_composite(white, layer).convert("RGB")


@lru_cache(maxsize=KNOWN_SIZES)
def picture_size(png: bytes) -> tuple[int, int]:
    """Return the height and width in pixels of a picture that is whole, its pixels included. Raises RequestRefused."""
    with _open_png(png) as picture:
        picture.verify()  # the checksums; it leaves the picture closed
    with _open_png(png) as picture:
        picture.load()
        return picture.height, picture.width


@contextmanager
def _open_png(png: bytes) -> Generator[PIL.Image.Image]:
    """Yield the picture, its pixels not read yet; what fails inside the block raises RequestRefused."""
    try:
        with PIL.Image.open(io.BytesIO(png), formats=["PNG"]) as picture:
            if picture.width * picture.height > MOST_PIXELS:
                raise PIL.Image.DecompressionBombError(f"it has {picture.width} × {picture.height} pixels")
            yield picture
    except (PIL.Image.DecompressionBombError, PIL.Image.DecompressionBombWarning) as error:
        raise RequestRefused(
            f"A picture is too large ({error}); no more than {MOST_PIXELS:,} pixels are decoded, make it smaller."
        ) from error
    except (OSError, ValueError, SyntaxError) as error:  # Pillow raises the last one for a broken chunk
        raise RequestRefused(f"A picture of {len(png)} bytes cannot be read ({error}); give a whole PNG.") from error


class Sight(NamedTuple):
    """The processor and placeholder by which one model takes pictures; Any, since transformers picks the classes."""

    processor: Any
    token: str  # what stands in a text for a picture, and again for each part of it
    token_id: int
    written: str  # a picture in a prompt without a chat template, as the model was trained to see it
    names_types: bool = False  # True if the model takes a mask of the tokens that belong to a picture

    def expand_tokens(self, tokens: Sequence[int], pngs: Sequence[bytes]) -> list[int]:
        """Return the tokens, with as many for each picture as it takes. Raises RequestRefused for a broken picture."""
        sizes = [picture_size(png) for png in pngs]
        try:
            counts = self.processor._get_num_multimodal_tokens(image_sizes=sizes).num_image_tokens if sizes else []
        except ValueError as error:
            shapes = ", ".join(f"{width} × {height}" for height, width in dict.fromkeys(sizes))
            raise RequestRefused(
                f"The model takes no pictures of this shape ({error}; pictures of {shapes} pixels); crop them."
            ) from error
        pending = iter(counts)
        return [repeated for token in tokens for repeated in [token] * (next(pending) if token == self.token_id else 1)]

    def picture_tensors(self, png: bytes) -> dict[str, Tensor]:
        """Return the tensors of one picture, as the model's image processor makes them. Raises RequestRefused."""
        return dict(self.processor.image_processor(images=[open_picture(png)], return_tensors="pt"))
