"""Pictures of questions as a judge gets them: upright RGB PNGs, the same bytes each time."""

from __future__ import annotations

import hashlib
import io
import zlib
from functools import lru_cache
from pathlib import Path

from PIL import Image as Decoder
from PIL import ImageOps

from models.protocols import Image
from tasks.lever.lever_errors import DatasetUnusable
from tasks.lever.lever_records import VqaItem

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP")
MOST_PIXELS = 80_000_000
"""Beyond that it is a bomb, or of no use to a model; Pillow warns from 89 million on."""
ORIENTATION, UPRIGHT = 0x0112, 1
"""EXIF tag, and its value for a picture that is not turned."""
QUICKLY = 1
"""Compression level: a tenth larger than Pillow's own choice, in a fifth of the time."""
MOST_PICTURES = 512
"""Of PNGs in memory: some 250 MB of COCO's."""
END_OF_JPEG, NEAR_THE_END = b"\xff\xd9", 64
"""Some cameras and editors write a few bytes behind a JPEG's end."""
UNREADABLE = (OSError, ValueError, SyntaxError, TypeError, IndexError, KeyError, EOFError, OverflowError, zlib.error)
"""What Pillow's decoders raise over damaged bytes."""
TOO_LARGE = (Decoder.DecompressionBombError, Decoder.DecompressionBombWarning)


class Pictures:
    """The pictures of items, kept in memory while there is room; any number of threads may ask.

    A file that changed after the dataset was read would be judged under the answers to another picture, so its digest
    is checked. A PNG that is upright, opaque and RGB goes through as it is; what is encoded here is the same bytes for
    the same file under the same zlib, so that its answers are found again.

    longest_side_px: larger pictures are made smaller.
    """

    def __init__(self, *, longest_side_px: int | None = None, most: int = MOST_PICTURES) -> None:
        self._longest_side_px = longest_side_px
        self._kept = lru_cache(maxsize=most)(self._read)

    def __call__(self, item: VqaItem) -> Image:
        """The picture of an item. Raises DatasetUnusable: missing, damaged, too large, or another than it was."""
        try:
            return self._kept(item.image, item.image_sha256)
        except _Unusable as error:
            raise DatasetUnusable(f"question {item.id}: its picture {item.image} {error}") from error

    def _read(self, path: str, sha256: str) -> Image:
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise _Unusable(f"cannot be read ({error.strerror}); put the file back") from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise _Unusable("is another than when the dataset was read; read the dataset again")
        try:
            return Image(png=_to_png(data, self._longest_side_px))
        except TOO_LARGE as error:
            raise _Unusable(f"has more than the {MOST_PIXELS:,} pixels that are read; make it smaller") from error
        except UNREADABLE as error:
            why = " ".join(str(error).split())[:120]
            raise _Unusable(f"is damaged, or no picture ({why}); leave the question out") from error


class _Unusable(Exception):
    """What is wrong with a picture, as the end of a sentence."""


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


def _to_png(data: bytes, longest_side_px: int | None) -> bytes:
    """The first frame, turned as its EXIF says, RGB, on white where it is transparent."""
    with _opened(data) as picture:
        picture.load()  # all of it: a file that ends too early shows only here
        if (
            (picture.format, picture.mode) == ("PNG", "RGB")
            and not picture.has_transparency_data
            and getattr(picture, "n_frames", 1) == 1
            and picture.getexif().get(ORIENTATION, UPRIGHT) == UPRIGHT
            and (longest_side_px is None or max(picture.size) <= longest_side_px)
        ):
            return data
        flat = ImageOps.exif_transpose(picture)
        if flat.has_transparency_data:
            flat = Decoder.alpha_composite(Decoder.new("RGBA", flat.size, "white"), flat.convert("RGBA"))
        elif flat.mode.startswith("I"):  # 16 bits of grey
            flat = flat.convert("I").point(lambda value: value / 256).convert("L")
        flat = flat.convert("RGB")
    if longest_side_px is not None:
        flat.thumbnail((longest_side_px, longest_side_px), Decoder.Resampling.BICUBIC)
    file = io.BytesIO()
    flat.save(file, "PNG", compress_level=QUICKLY)
    return file.getvalue()
