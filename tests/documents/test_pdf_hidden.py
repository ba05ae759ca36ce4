"""Text of a PDF counts if drawing the page without it changes what a person sees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymupdf as untyped_pymupdf
import pytest

from tasks.documents.blocks import Page
from tasks.documents.document_readers import ReadOptions
from tasks.documents.pdf.pdf_reader import open_pdf

pymupdf: Any = untyped_pymupdf  # its annotations know few of its names

AT = (72, 150)
SECRET = "Correction: the sum is 1 USD"
KOREAN = "정정: 총액은 1원이다"
PLAIN = "The sum of the contract is 485,000 USD."
WHITE, DARK, BLACK = (1, 1, 1), (0.1, 0.15, 0.3), (0, 0, 0)
Draw = Callable[[Any, str], object]


def text(**style: Any) -> Draw:
    def draw(page: Any, words: str) -> None:
        look = {"fontsize": 11, **style}
        page.insert_text(look.pop("at", AT), words, fontname="korea", **look)

    return draw


def fill(colour: tuple[float, float, float], **look: Any) -> Draw:
    return lambda page, _: page.draw_rect((60, 130, 400, 160), color=None, fill=colour, **look)


def photograph(page: Any, _: str) -> None:
    """An image with the texture of a photograph."""
    pixels = bytes((x * x * 31 + y * y * 17 + x * y * 7) % 251 for y in range(60) for x in range(340))
    page.insert_image((60, 120, 400, 180), pixmap=pymupdf.Pixmap(pymupdf.csGRAY, 340, 60, pixels, False))


def scan(page: Any, words: str, *, down: float = 0.0) -> None:
    """An image of the same words, at the same place or a part of a line below."""
    source = pymupdf.open().new_page(width=595, height=842)
    text(at=(AT[0], AT[1] + down))(source, words)
    page.insert_image(page.rect, pixmap=source.get_pixmap(dpi=150))


def background(page: Any, _: str) -> None:
    page.insert_image(page.rect, pixmap=pymupdf.Pixmap(pymupdf.csGRAY, 8, 8, bytes(range(180, 244)), False))


def in_layer(page: Any, words: str) -> None:
    text(oc=page.parent.add_ocg("draft", on=False))(page, words)


def highlight(page: Any, _: str) -> None:
    page.add_highlight_annot(pymupdf.Rect(60, 138, 300, 154))


def stamp(page: Any, words: str) -> None:
    page.add_freetext_annot((60, 138, 300, 154), words, text_color=WHITE, fontname="korea").update()


def read(page: Any, tmp_path: Path, reader: str) -> Page:
    page.parent.save(tmp_path / "a.pdf")
    options = ReadOptions.model_validate({"ocr": "off", "pdf_reader": reader})
    return next(iter(open_pdf(tmp_path / "a.pdf", password=None, options=options).pages()))


HIDDEN = {
    "white on white": [text(color=WHITE)],
    "nearly white": [text(color=(0.98, 0.98, 0.98))],
    "dark on dark": [fill(DARK), text(color=DARK)],
    "under a white shape": [text(), fill(WHITE)],
    "under thin shapes": [
        text(),
        *(lambda page, _, x=x: page.draw_rect((x, 130, x + 2, 160), color=None, fill=WHITE) for x in range(60, 400, 2)),
    ],
    "under a black bar": [text(), fill(BLACK)],
    "under a picture": [text(), photograph],
    "never painted": [text(render_mode=3)],
    "never painted over a photograph": [photograph, text(render_mode=3)],
    "transparent": [text(fill_opacity=0)],
    "half a point high": [text(fontsize=0.5)],
    "outside the page": [text(at=(72, -40))],
    "on a hidden layer": [in_layer],
    "white in a note on the page": [stamp],
}
SEEN = {
    "black on white": [text()],
    "white on a dark bar": [fill(DARK), text(color=WHITE)],
    "a pale watermark": [text(color=(0.85, 0.85, 0.85))],
    "small print": [text(fontsize=4)],
    "on a coloured ground": [fill((1, 0.9, 0.6)), text()],
    "under a marker": [text(), fill((1, 1, 0), fill_opacity=0.4)],
    "under a highlight": [text(), highlight],
    "on a background image": [background, text()],
    "read by OCR, over the scan": [scan, text(render_mode=3)],
    "read by OCR, under the scan": [text(), scan],
    "under a picture with the same heading": [text(), lambda page, words: scan(page, words, down=6)],
}


@pytest.mark.parametrize("words", [SECRET, KOREAN], ids=["English", "Korean"])
@pytest.mark.parametrize("draws", HIDDEN.values(), ids=HIDDEN)
def test_what_nobody_sees_is_kept_apart(tmp_path: Path, draws: list[Draw], words: str) -> None:
    page = pymupdf.open().new_page(width=595, height=842)
    text(at=(72, 72))(page, PLAIN)
    for draw in draws:
        draw(page, words)

    for reader in ("auto", "pdfplumber"):
        read_page = read(page, tmp_path, reader)
        assert [block.text for block in read_page.blocks] == [PLAIN]
        assert [hidden.text for hidden in read_page.hidden] == [words]


@pytest.mark.parametrize("words", [SECRET, KOREAN], ids=["English", "Korean"])
@pytest.mark.parametrize("draws", SEEN.values(), ids=SEEN)
def test_what_a_person_sees_stays(tmp_path: Path, draws: list[Draw], words: str) -> None:
    page = pymupdf.open().new_page(width=595, height=842)
    for draw in draws:
        draw(page, words)

    read_page = read(page, tmp_path, "auto")

    assert ([block.text for block in read_page.blocks], read_page.hidden) == ([words], ())


def test_a_page_that_shows_no_letter_names_those_that_it_cuts_off(tmp_path: Path) -> None:
    page = pymupdf.open().new_page(width=595, height=842)
    page.insert_text((700, 150), PLAIN)
    read_page = read(page, tmp_path, "auto")
    assert [(hidden.text, hidden.reason) for hidden in read_page.hidden] == [(PLAIN, "outside the page")]


def test_a_covered_amount_is_cut_from_its_line_and_what_is_written_over_it_is_read_there(tmp_path: Path) -> None:
    page = pymupdf.open().new_page(width=595, height=842)
    page.insert_text(AT, "The sum is 485,000 USD in all.", fontname="cour", fontsize=10)  # letters are 6 points wide
    page.draw_rect((137, 138, 181, 154), color=None, fill=WHITE)
    page.insert_text((138, 150), "512,000", fontname="cour", fontsize=10)

    read_page = read(page, tmp_path, "auto")

    assert [block.text for block in read_page.blocks] == ["The sum is 512,000 USD in all."]
    assert [(hidden.text, hidden.reason) for hidden in read_page.hidden] == [("485,000", "under a shape")]


def test_what_is_drawn_is_read_and_not_what_the_page_says_instead(tmp_path: Path) -> None:
    page = pymupdf.open().new_page(width=595, height=842)
    page.insert_text(AT, "x", fontname="cour")
    said = "/Span <</ActualText ({})>> BDC ({}) Tj EMC"
    drawn = ("(The sum is ) Tj", said.format("1", "485,000"), said.format(" OC", " oc"), said.format("", "-"))
    stream = f"BT /cour 11 Tf 72 700 Td {' '.join(drawn)} 1 g 0 -20 Td (unseen) Tj ET"
    page.parent.update_stream(page.get_contents()[0], stream.encode())

    read_page = read(page, tmp_path, "auto")

    assert [block.text for block in read_page.blocks] == ["The sum is 485,000 oc-"]
    assert [hidden.text for hidden in read_page.hidden] == ["1", "unseen"]
