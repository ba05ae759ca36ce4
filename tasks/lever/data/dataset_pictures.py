"""Pictures of questions as a judge gets them: upright RGB PNGs, the same bytes each time."""

from __future__ import annotations

import hashlib
import io
import zlib
from collections import OrderedDict
from pathlib import Path
from threading import Lock

from PIL import Image as Decoder
from PIL import ImageOps

from models.protocols import Image
from tasks.lever.lever_errors import DatasetUnusable
from tasks.lever.lever_records import VqaItem

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP")
MOST_PIXELS = 80_000_000
"""Beyond that it is a bomb, or of no use to a model; Pillow warns from 89 million on."""
ORIENTATION = 0x0112
UPRIGHT = 1
QUICKLY = 1
"""Compression level: a tenth larger than Pillow's own choice, in a fifth of the time."""
MOST_BYTES = 256_000_000
END_OF_JPEG = b"\xff\xd9"
NEAR_THE_END = 64
"""Bytes; some cameras and editors write a little behind a JPEG's end."""
UNREADABLE = (OSError, ValueError, SyntaxError, TypeError, IndexError, KeyError, EOFError, OverflowError, zlib.error)
"""What Pillow's decoders raise over damaged bytes."""
TOO_LARGE = (Decoder.DecompressionBombError, Decoder.DecompressionBombWarning)


class Pictures:
    """The pictures of items, read once while there is room; any number of threads may ask.

    Each is found by the digest of its file, which is checked: a file that changed after the dataset was read would be
    judged under the answers to another picture. A PNG that is upright, opaque and RGB goes through as it is; what is
    encoded here is the same bytes for the same file under the same zlib, so that its answers are found again.

    longest_side_px: larger pictures are made smaller. most_bytes: of PNGs that are kept.
    """

    def __init__(self, *, longest_side_px: int | None = None, most_bytes: int = MOST_BYTES) -> None:
        self._longest_side_px = longest_side_px
        self._most_bytes = most_bytes
        self._kept: OrderedDict[str, Image] = OrderedDict()
        self._bytes = 0
        self._guard = Lock()

    def __call__(self, item: VqaItem) -> Image:
        """The picture of an item. Raises DatasetUnusable: missing, damaged, too large, or another than it was."""
        with self._guard:
            if found := self._kept.get(item.image_sha256):
                self._kept.move_to_end(item.image_sha256)
                return found
        try:
            made = Image(png=png_of(_read(item), longest_side_px=self._longest_side_px))
        except _Unusable as error:
            raise DatasetUnusable(f"question {item.id}: its picture {item.image} {error}") from error
        with self._guard:
            return self._keep(item.image_sha256, made)

    def _keep(self, digest: str, made: Image) -> Image:
        if digest not in self._kept:
            self._kept[digest] = made
            self._bytes += len(made.png)
        while self._bytes > self._most_bytes and len(self._kept) > 1:
            self._bytes -= len(self._kept.popitem(last=False)[1].png)
        return self._kept[digest]


class _Unusable(Exception):
    """What is wrong with a picture, as the end of a sentence."""


def _read(item: VqaItem) -> bytes:
    try:
        data = Path(item.image).read_bytes()
    except OSError as error:
        raise _Unusable(f"cannot be read ({error.strerror}); put the file back") from error
    if hashlib.sha256(data).hexdigest() != item.image_sha256:
        raise _Unusable("is another than when the dataset was read; read the dataset again")
    return data


def png_of(data: bytes, *, longest_side_px: int | None) -> bytes:
    """A picture file as PNG: the first frame, turned as its EXIF says, RGB, on white where it is transparent."""
    try:
        return _png(data, longest_side_px)
    except TOO_LARGE as error:
        raise _Unusable(f"has more than the {MOST_PIXELS:,} pixels that are read; make it smaller") from error
    except UNREADABLE as error:
        why = " ".join(str(error).split())[:120]
        raise _Unusable(f"is damaged, or no picture ({why}); leave the question out") from error


def trouble_of(data: bytes) -> str | None:
    """Why a picture file cannot be shown, as the end of a sentence; None if it can, as far as a quick look tells.

    A PNG tells by its checksums, and a JPEG by its end, that nothing is missing; of other files all is decoded.
    """
    try:
        with _opened(data) as picture:
            if picture.format == "PNG" or (picture.format == "JPEG" and END_OF_JPEG in data[-NEAR_THE_END:]):
                picture.verify()
            else:
                picture.load()
    except TOO_LARGE:
        return f"has more than {MOST_PIXELS:,} pixels"
    except UNREADABLE as error:
        return f"is damaged, or no picture in a known format ({type(error).__name__})"
    return None


def _opened(data: bytes) -> Decoder.Image:
    """The picture, checked to be of a known format and a bounded size; nothing is decoded yet."""
    picture = Decoder.open(io.BytesIO(data), formats=FORMATS)
    width, height = picture.size
    if width * height > MOST_PIXELS:
        raise Decoder.DecompressionBombError(f"{width} × {height} pixels")
    return picture


def _png(data: bytes, longest_side_px: int | None) -> bytes:
    with _opened(data) as picture:
        picture.load()  # all of it: a file that ends too early shows only here
        if _is_fit(picture, longest_side_px):
            return data
        flat = _on_white(ImageOps.exif_transpose(picture))
    if longest_side_px is not None:
        flat.thumbnail((longest_side_px, longest_side_px), Decoder.Resampling.BICUBIC)
    file = io.BytesIO()
    flat.save(file, "PNG", compress_level=QUICKLY)
    return file.getvalue()


def _is_fit(picture: Decoder.Image, longest_side_px: int | None) -> bool:
    return (
        picture.format == "PNG"
        and picture.mode == "RGB"
        and not picture.has_transparency_data
        and getattr(picture, "n_frames", 1) == 1
        and picture.getexif().get(ORIENTATION, UPRIGHT) == UPRIGHT
        and (longest_side_px is None or max(picture.size) <= longest_side_px)
    )


def _on_white(picture: Decoder.Image) -> Decoder.Image:
    if picture.has_transparency_data:
        opaque = Decoder.new("RGBA", picture.size, "white")
        return Decoder.alpha_composite(opaque, picture.convert("RGBA")).convert("RGB")
    if picture.mode.startswith("I"):  # 16 bits of grey
        return picture.convert("I").point(lambda value: value / 256).convert("L").convert("RGB")
    return picture.convert("RGB")
