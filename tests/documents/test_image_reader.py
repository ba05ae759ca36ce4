"""Pictures as documents: frames are pages, text comes by tesseract, and files that mean harm are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from tasks.documents.blocks import Page, PageStatus
from tasks.documents.document_readers import ReadOptions
from tasks.documents.formats import sniff
from tasks.documents.image_reader import image_pictures, open_image

needs_tesseract = pytest.mark.program("tesseract")


def written(text: str, *, size: tuple[int, int] = (1200, 400)) -> Image.Image:
    """Black words on white, at 200 dpi as tall as 14 points."""
    picture = Image.new("RGB", size, "white")
    ImageDraw.Draw(picture).text((100, 150), text, "black", ImageFont.load_default(size=48))
    return picture


def pages(path: Path, *, ocr: bool = True) -> list[Page]:
    options = ReadOptions(ocr="auto" if ocr else "off")
    return list(open_image(path, password=None, options=options).pages())


def words(page: Page) -> str:
    return " ".join(block.text for block in page.blocks)


@needs_tesseract
@pytest.mark.parametrize("suffix", [".png", ".jpg", ".tiff"])
def test_the_text_of_a_picture_has_a_page_and_boxes(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    written("Delivery by Friday").save(path, dpi=(200, 200))

    (page,) = pages(path)

    assert sniff(path).format == "image"
    assert (page.number, page.status, words(page)) == (1, PageStatus.OCR, "Delivery by Friday")
    assert (page.width, page.height) == (432, 144)  # 1200 and 400 pixels at 200 dpi
    left, top, right, bottom = page.blocks[0].bbox or (0, 0, 0, 0)
    assert 30 < left < 40 < right < 250
    assert 50 < top < bottom < 80


@needs_tesseract
def test_the_frames_of_a_tiff_are_pages(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    written("First sheet").save(path, save_all=True, append_images=[written("Second sheet")], dpi=(200, 200))

    assert [(page.number, words(page)) for page in pages(path)] == [(1, "First sheet"), (2, "Second sheet")]
    assert [picture.page for picture in image_pictures(path, password=None)] == [1, 2]


@needs_tesseract
def test_a_picture_that_was_taken_sideways_stands_upright(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise to see it upright
    written("Turn me upright").rotate(90, expand=True).save(path, exif=exif, dpi=(200, 200))

    (page,) = pages(path)

    assert (words(page), page.width, page.height) == ("Turn me upright", 432, 144)


def test_without_text_recognition_the_page_says_why_it_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    written("Delivery by Friday").save(path)

    (page,) = pages(path, ocr=False)

    assert (page.status, page.reason, page.blocks) == (PageStatus.EMPTY, "image-only", ())
