"""Text from page images by tesseract; skipped where it is not installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pymupdf as untyped_pymupdf
import pytest

from tasks.documents.blocks import PageStatus
from tasks.documents.document_readers import ReadOptions
from tasks.documents.pdf.pdf_document import OcrFailed, read_scan
from tasks.documents.pdf.pdf_reader import open_pdf

pymupdf: Any = untyped_pymupdf  # its annotations know few of its names

needs_tesseract = pytest.mark.program("tesseract")


def scanned(path: Path, text: str, *, font: str = "helv") -> Path:
    """A PDF whose page is a picture of a page."""
    source = pymupdf.open().new_page(width=420, height=200)
    source.insert_text((40, 80), text, fontsize=20, fontname=font)
    picture = source.get_pixmap(dpi=200)
    page = pymupdf.open().new_page(width=420, height=200)
    page.insert_image(page.rect, pixmap=picture)
    page.parent.save(path)
    return path


@needs_tesseract
def test_a_scanned_page_is_read_with_boxes_in_points(tmp_path: Path) -> None:
    path = scanned(tmp_path / "a.pdf", "Contract amount 35,750")
    (page,) = open_pdf(path, password=None, options=ReadOptions()).pages()
    (block,) = page.blocks
    assert (page.status, page.reason) == (PageStatus.OCR, "image-only")
    assert block.text == "Contract amount 35,750"
    assert block.bbox is not None
    assert block.bbox == pytest.approx((40, 65, 252, 84), abs=6)


@needs_tesseract
def test_a_scanned_korean_page_is_read(tmp_path: Path) -> None:
    path = scanned(tmp_path / "a.pdf", "정보시스템 구축 사업", font="korea")
    (page,) = open_pdf(path, password=None, options=ReadOptions()).pages()
    assert "".join(page.blocks[0].text.split()) == "정보시스템구축사업"


def test_ocr_can_be_switched_off(tmp_path: Path) -> None:
    path = scanned(tmp_path / "a.pdf", "Contract")
    (page,) = open_pdf(path, password=None, options=ReadOptions(ocr="off")).pages()
    assert (page.status, page.reason) == (PageStatus.EMPTY, "image-only")


@needs_tesseract
@pytest.mark.parametrize(
    ("own_text", "unread_as"), [("", PageStatus.EMPTY), ("Form 17 of the city of Oslo", PageStatus.OK)]
)
def test_text_that_is_drawn_as_outlines_is_named_or_read(tmp_path: Path, own_text: str, unread_as: PageStatus) -> None:
    source = pymupdf.open().new_page(width=420, height=200)
    for y in (60, 110, 160):
        source.insert_text((40, y), "Contract amount 35,750", fontsize=20)
    drawn = pymupdf.open("svg", source.get_svg_image(text_as_path=True).encode()).convert_to_pdf()
    document = pymupdf.open("pdf", drawn)
    document[0].insert_text((40, 85), own_text, fontsize=8)
    document.save(tmp_path / "a.pdf")

    (unread,) = open_pdf(tmp_path / "a.pdf", password=None, options=ReadOptions(ocr="off")).pages()
    (page,) = open_pdf(tmp_path / "a.pdf", password=None, options=ReadOptions()).pages()

    assert (unread.status, unread.reason) == (unread_as, "drawn text, not read")
    assert (page.status, page.reason) == (PageStatus.OCR, "drawn text")
    assert page.blocks[0].text == "Contract amount 35,750"


@needs_tesseract
def test_an_image_that_takes_too_long_is_given_up() -> None:
    with pytest.raises(OcrFailed, match="took more than"):
        read_scan(pymupdf.open().new_page(width=400, height=400), timeout_s=0.001)
