"""Converts embedded images to upright RGB PNGs on white, or gives the reason why it cannot."""

from __future__ import annotations

import io
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tasks.documents.blocks import LONGEST_SIDE_PX, ImageCandidate
from tasks.documents.document_errors import DocumentError, NeedsPassword, shorten

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP")
MOST_PIXELS = 100_000_000  # an A3 page at 600 dpi has 70 million
DRAWN = {
    # with a placeable header, and without: in memory, on disk
    "WMF": (b"\xd7\xcd\xc6\x9a", b"\x01\x00\x09\x00", b"\x02\x00\x09\x00"),
    "EMF": (b"\x01\x00\x00\x00",),
    "SVG": (b"<svg", b"<?xml"),
}
"""Vector formats, which Pillow does not draw, by their first bytes."""
UNREADABLE = (OSError, ValueError, SyntaxError, TypeError, IndexError, KeyError, EOFError, OverflowError, zlib.error)
"""Exceptions that Pillow's decoders raise for damaged bytes."""


class Picture(NamedTuple):
    """A decoded image with the width and height of the original."""

    png: bytes
    width: int
    height: int


class EmbeddedImage(NamedTuple):
    """The bytes of an embedded image, or the reason why there are none."""

    data: bytes
    problem: str | None = None


EXTERNAL_IMAGE = EmbeddedImage(b"", "the image is outside the document and is not fetched")


class Undecodable(Exception):
    """The bytes are no readable picture; the message gives the reason."""


def make_candidates(images: Iterable[EmbeddedImage]) -> Iterator[ImageCandidate]:
    """Yield a numbered candidate without a page for each image, in order; one that is not decoded has a problem."""
    for n, image in enumerate(images, start=1):
        candidate = ImageCandidate(page=None, bbox=None, n=n, source="raster", problem=image.problem)
        if image.problem is None:
            try:
                candidate = candidate.model_copy(update=decode_image(image.data)._asdict())
            except Undecodable as error:
                candidate = candidate.model_copy(update={"problem": str(error)})
        yield candidate


def read_embedded(read: Callable[[], bytes]) -> EmbeddedImage:
    """Return the bytes that `read` gives, or why the part is damaged or refused. Raises NeedsPassword."""
    try:
        return EmbeddedImage(read())
    except NeedsPassword:
        raise
    except DocumentError as error:
        return EmbeddedImage(b"", str(error))


def decode_image(data: bytes) -> Picture:
    """Decode the first frame, turned as its EXIF says, with alpha composited on white. Raises Undecodable."""
    from PIL import Image  # not needed to read text, and readers import this module

    if not data:
        raise Undecodable("the image has no bytes")
    kind = next((name for name, magics in DRAWN.items() if data.lstrip()[:8].startswith(magics)), None)
    if kind:
        raise Undecodable(f"{kind} pictures are not supported")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of every oddity; what fails raises
            return _decode_upright(data)
    except Image.DecompressionBombError as error:
        raise Undecodable(f"the image has more pixels than the {MOST_PIXELS:,} that are read") from error
    except Image.UnidentifiedImageError as error:
        raise Undecodable(f"the image's format is not supported (it begins with {data[:8].hex()})") from error
    except UNREADABLE as error:
        raise Undecodable(f"the image is damaged ({shorten(error)})") from error


def _decode_upright(data: bytes) -> Picture:
    """Return an upright RGB PNG on white, with its size before shrinking. Raises Undecodable above MOST_PIXELS."""
    from PIL import Image, ImageOps

    with Image.open(io.BytesIO(data), formats=FORMATS) as image:
        width, height = image.size
        if width * height > MOST_PIXELS:
            raise Undecodable(f"the image has {width} × {height} pixels, more than the {MOST_PIXELS:,} that are read")
        upright = ImageOps.exif_transpose(image)
        flat = upright
        if upright.has_transparency_data:
            with_alpha = upright.convert("RGBA")
            flat = Image.alpha_composite(Image.new("RGBA", with_alpha.size, "white"), with_alpha)
        elif upright.mode.startswith("I"):
            flat = upright.convert("I").point(lambda value: value / 256).convert("L")  # 16 bits of grey
        flat = flat.convert("RGB")
    flat.thumbnail((LONGEST_SIDE_PX, LONGEST_SIDE_PX))
    file = io.BytesIO()
    flat.save(file, "PNG")
    return Picture(file.getvalue(), *upright.size)
