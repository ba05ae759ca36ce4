"""Pictures of a request: PNGs alone, since pictures of documents and datasets have been converted to PNG before.

The size in the header is checked first: it bounds the memory that a PNG takes.
"""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

import PIL.Image

from models.model_errors import RequestRefused
from models.protocols import Image, Message

MOST_PIXELS = 80_000_000  # an A3 page at 600 dpi has 70 million; beyond that it is a bomb, or of no use to a model
KNOWN_SIZES = 64  # pictures that are not decoded again for their size: demonstrations come again and again
SIGNATURE = b"\x89PNG\r\n\x1a\n"


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


@lru_cache(maxsize=KNOWN_SIZES)
def picture_size(png: bytes) -> tuple[int, int]:
    """Height and width in pixels of a picture that is whole, its pixels included. Raises RequestRefused."""
    with _opened(png) as picture:
        picture.verify()  # the checksums; it leaves the picture closed
    with _opened(png) as picture:
        picture.load()
        return picture.height, picture.width


@contextmanager
def _opened(png: bytes) -> Generator[PIL.Image.Image]:
    _check_header(png)
    try:
        with PIL.Image.open(io.BytesIO(png), formats=["PNG"]) as picture:
            yield picture
    except (OSError, ValueError, SyntaxError) as error:
        raise _unreadable(png, str(error)) from error


def _check_header(png: bytes) -> None:
    """Before Pillow sees a byte: it warns of large pictures, and where warnings are errors it fails with one."""
    if not png.startswith(SIGNATURE):
        raise _unreadable(png, f"it begins with {png[:8].hex() or 'nothing'}, and a PNG with {SIGNATURE.hex()}")
    if png[12:16] != b"IHDR" or len(png) < 24:
        raise _unreadable(png, "it has no header")
    width, height = int.from_bytes(png[16:20]), int.from_bytes(png[20:24])
    if width * height > MOST_PIXELS:
        raise RequestRefused(
            f"A picture has {width} × {height} pixels by its header, and no more than {MOST_PIXELS:,} are decoded; "
            "make it smaller."
        )


def _unreadable(png: bytes, why: str) -> RequestRefused:
    return RequestRefused(f"A picture of {len(png)} bytes cannot be read ({why}); give a whole PNG.")
