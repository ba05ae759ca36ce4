"""Pictures of a request, and what Pillow makes of them."""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

import PIL.Image

from models.errors import RequestRefused
from models.protocols import Image, Message


def pictures_of(messages: Sequence[Message]) -> Iterator[bytes]:
    """The PNGs of messages, in their order."""
    yield from (part.png for message in messages for part in message.content if isinstance(part, Image))


def open_picture(png: bytes) -> PIL.Image.Image:
    """The picture in RGB, read to its end; what is transparent lies on white. Raises RequestRefused."""
    with _opened(png) as picture:
        if not picture.has_transparency_data:
            return picture.convert("RGB")
        layer = picture.convert("RGBA")
        white = PIL.Image.new("RGBA", layer.size, "white")
        return PIL.Image.alpha_composite(white, layer).convert("RGB")


def picture_size(png: bytes) -> tuple[int, int]:
    """Height and width in pixels; of a PNG the checksums are looked at, not the pixels. Raises RequestRefused."""
    with _opened(png) as picture:
        size = picture.height, picture.width
        if picture.format == "PNG":
            picture.verify()
        else:
            picture.load()
        return size


@contextmanager
def _opened(png: bytes) -> Generator[PIL.Image.Image]:
    try:
        with PIL.Image.open(io.BytesIO(png)) as picture:
            yield picture
    except (OSError, ValueError, SyntaxError, PIL.Image.DecompressionBombError) as error:
        raise RequestRefused(
            f"A picture of {len(png)} bytes cannot be read ({error}); give a whole PNG of ordinary size."
        ) from error
