"""Pictures become upright RGB PNGs, the same bytes each time, or say why not."""

from __future__ import annotations

import hashlib
import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image as Decoder

from tasks.lever.data import vqa_files as module
from tasks.lever.data.vqa_files import MOST_PIXELS, Pictures, find_damage
from tasks.lever.lever_errors import DatasetUnusable
from tasks.lever.lever_records import VqaItem

TURNED_LEFT = 6
"""EXIF: the top of the picture is at its right."""
RED, BLUE, WHITE = (255, 0, 0), (0, 0, 255), (255, 255, 255)


def item(path: Path) -> VqaItem:
    data = path.read_bytes() if path.is_file() else b""
    return VqaItem(
        id="7",
        image_id="7",
        image=str(path),
        image_sha256=hashlib.sha256(data).hexdigest(),
        question="?",
        answers=("a",),
    )


def saved(path: Path, picture: Decoder.Image, **options: object) -> VqaItem:
    picture.save(path, **options)  # pyright: ignore[reportArgumentType]
    return item(path)


def opened(png: bytes) -> Decoder.Image:
    picture = Decoder.open(io.BytesIO(png))
    assert (picture.format, picture.mode) == ("PNG", "RGB")
    return picture


def red_and_blue() -> Decoder.Image:
    """Red on the left, blue on the right."""
    picture = Decoder.new("RGB", (40, 20), RED)
    picture.paste(BLUE, (20, 0, 40, 20))
    return picture


def close(one: object, other: tuple[int, int, int]) -> bool:
    assert isinstance(one, tuple)
    return max(abs(a - b) for a, b in zip(one, other, strict=True)) < 20


def test_a_png_that_needs_nothing_goes_through_as_it_is(tmp_path: Path) -> None:
    one = saved(tmp_path / "a.png", red_and_blue())
    assert Pictures()(one).png == Path(one.image).read_bytes()


@pytest.mark.parametrize(
    ("name", "picture", "options"),
    [
        pytest.param("a.jpg", red_and_blue(), {"quality": 95}, id="jpeg"),
        pytest.param("a.png", red_and_blue().convert("P"), {}, id="png with a palette"),
    ],
)
def test_others_become_rgb_pngs(tmp_path: Path, name: str, picture: Decoder.Image, options: dict[str, object]) -> None:
    seen = opened(Pictures()(saved(tmp_path / name, picture, **options)).png)
    assert seen.size == (40, 20)
    assert close(seen.getpixel((5, 10)), RED)
    assert close(seen.getpixel((35, 10)), BLUE)


@pytest.mark.parametrize("name", ["a.jpg", "a.png"])
def test_pictures_are_turned_as_their_exif_says(tmp_path: Path, name: str) -> None:
    exif = Decoder.Exif()
    exif[module.ORIENTATION] = TURNED_LEFT
    seen = opened(Pictures()(saved(tmp_path / name, red_and_blue(), exif=exif)).png)
    assert seen.size == (20, 40)
    assert (close(seen.getpixel((10, 5)), RED), close(seen.getpixel((10, 35)), BLUE)) == (True, True)
    assert seen.getexif().get(module.ORIENTATION, 1) == 1


def bomb() -> bytes:
    """A PNG that says it has more pixels than anybody reads."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", MOST_PIXELS // 8000 + 1, 8000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("name", "spoil", "said"),
    [
        pytest.param("a.png", lambda _: b"<html>not found</html>", "is damaged, or no picture", id="a web page"),
        pytest.param("a.png", lambda _: bomb(), f"has more than {MOST_PIXELS:,} pixels", id="bomb"),
    ],
)
def test_a_picture_that_cannot_be_read_says_so(
    tmp_path: Path, name: str, spoil: Callable[[bytes], bytes], said: str
) -> None:
    path = tmp_path / name
    noise = Decoder.effect_noise((64, 64), 50).convert("RGB")
    noise.save(path)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(DatasetUnusable, match=f"picture .*{name} {said}"):
        Pictures()(item(path))


def test_a_picture_that_changed_is_not_shown(tmp_path: Path) -> None:
    one = saved(tmp_path / "a.png", red_and_blue())
    Decoder.new("RGB", (4, 4)).save(one.image)
    with pytest.raises(DatasetUnusable, match="is another than when the dataset was read"):
        Pictures()(one)


def test_a_quick_look_finds_what_showing_would(tmp_path: Path) -> None:
    for kind in ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP"):
        whole = tmp_path / f"a.{kind.lower()}"
        Decoder.effect_noise((64, 64), 50).convert("RGB").save(whole)
        data = whole.read_bytes()
        assert find_damage(data) is None
        assert "is damaged" in str(find_damage(data[: len(data) * 3 // 4])), kind
    assert "has more than" in str(find_damage(bomb()))
