"""HWP and HWPX have pages, boxes and pictures of pages."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from tasks.documents.blocks import Block, Document
from tasks.documents.document_readers import PROGRESS, Reader, ReadOptions
from tasks.documents.hwp import hwp_container, hwp_layout, hwp_reader
from tasks.documents.hwp.hwp_reader import open_hwp, open_hwpx
from tasks.documents.isolation import Job, ReadLimits, read_document, render_pages
from tasks.documents.page_join import place_on_pages

SAMPLES = Path(__file__).parents[1] / "samples" / "documents"
STEM = "라온군_버스정류장 한파쉼터 설치"
A4 = (595.28, 841.88)

GLYPH = '<text x="{x}" y="{y}" font-size="20">{sign}</text>'
DRAWN = (
    '<svg width="800" height="1000" viewBox="0 0 800 1000"><defs>'
    '<clipPath id="body-clip-3"><rect x="100" y="100" width="600" height="800"/></clipPath></defs>'
    + GLYPH.format(x=100, y=50, sign="머")
    + '<g clip-path="url(#body-clip-3)"><g clip-path="url(#cell-clip-4)">'
    + GLYPH.format(x=100, y=200, sign="가")
    + "</g>"
    + GLYPH.format(x=100, y=950, sign="넘")
    + '<image x="100" y="400" width="40" height="80" href="data:,"/></g>'
    + GLYPH.format(x=100, y=960, sign="&lt;")
    + "</svg>"
)


def draw(monkeypatch: pytest.MonkeyPatch, *pages: str) -> None:
    """Let the engine draw these pages, whatever the document."""
    monkeypatch.setattr(hwp_layout, "Engine", lambda *_: SimpleNamespace(pages=lambda _, after_first: iter(pages)))


def read(suffix: str) -> Document:
    job = Job(path=SAMPLES / f"{STEM}.{suffix}", digest="x", format=suffix)
    return read_document(job, options=ReadOptions(), limits=ReadLimits()).document


@pytest.mark.parametrize("suffix", ["hwp", "hwpx"])
def test_every_page_has_a_number_and_a_size(suffix: str) -> None:
    document = read(suffix)
    assert document.page_source == "layout"
    assert [page.number for page in document.pages] == list(range(1, len(document.pages) + 1))
    assert all((page.width, page.height) == pytest.approx(A4, abs=0.1) for page in document.pages)


def test_both_formats_stand_on_the_same_pages() -> None:
    places = [
        [(block.page, block.text) for page in read(suffix).pages for block in page.blocks] for suffix in ("hwp", "hwpx")
    ]
    assert places[0] == places[1]


@pytest.mark.shared
@pytest.mark.parametrize(("suffix", "opener"), [("hwp", open_hwp), ("hwpx", open_hwpx)])
def test_a_long_document_is_read_in_parts_as_it_is_as_a_whole(
    suffix: str, opener: Callable[..., Reader], shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Headers and footers with page numbers, which each part counts anew, aside."""

    def read_body() -> list[tuple[str, int | None, str]]:
        path = shared / "documents" / "hwp_pages" / f"2025년 2분기 해외직접투자 (최종).{suffix}"
        pages = opener(path, password=None, options=ReadOptions()).pages()
        return [(b.kind, b.page, b.text) for page in pages for b in page.blocks if b.kind not in ("header", "footer")]

    whole, parts = read_body(), list[int]()
    monkeypatch.setattr(hwp_container, "PART_BYTES", 60_000)
    monkeypatch.setattr(hwp_reader, "PART_XML_BYTES", 400_000)
    token = PROGRESS.set(lambda: parts.append(1))
    in_parts = read_body()
    PROGRESS.reset(token)

    assert (in_parts, len(parts) > 1) == (whole, True)


def test_boxes_lie_on_their_page() -> None:
    boxes = [block.bbox for page in read("hwp").pages for block in page.blocks if block.text]
    assert all(box and 0 <= box[0] < box[2] <= A4[0] and 0 <= box[1] < box[3] <= A4[1] for box in boxes)


def test_the_picture_of_a_page_shows_the_box(tmp_path: Path) -> None:
    job = Job(path=SAMPLES / f"{STEM}.hwp", digest="x", format="hwp")
    [(number, file)] = render_pages(job, {1: [(100.0, 200.0, 300.0, 260.0)]}, scratch=tmp_path, limits=ReadLimits())
    pixels = np.asarray(Image.open(file).convert("RGB")).astype(int)
    rows, columns = np.nonzero((abs(pixels - (214, 40, 40)) < 12).all(axis=2))
    scale = A4[0] / pixels.shape[1]
    around = (columns.min() * scale, rows.min() * scale, columns.max() * scale, rows.max() * scale)
    assert number == 1
    assert around == pytest.approx((97.0, 197.0, 303.0, 263.0), abs=1.5)


def changed_sample(folder: Path, pattern: str, replacement: str) -> Document:
    """The sample as HWPX, changed where the pattern first occurs in its section or head."""
    path = folder / "x.hwpx"
    with zipfile.ZipFile(SAMPLES / f"{STEM}.hwpx") as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            content = source.read(name).decode("utf-8", "surrogateescape")
            content = re.sub(pattern, replacement, content, count=1, flags=re.DOTALL)
            target.writestr(name, content.encode("utf-8", "surrogateescape"))
    return read_document(Job(path, digest="y", format="hwpx"), options=ReadOptions(), limits=ReadLimits()).document


def test_without_a_page_definition_a_short_text_is_whole_on_page_1(tmp_path: Path) -> None:
    changed = changed_sample(tmp_path, "<hp:secPr.*?</hp:secPr>", "")
    assert [page.number for page in changed.pages] == [1]
    letters = [Counter(block.text for page in made.pages for block in page.blocks) for made in (read("hwpx"), changed)]
    assert letters[0] - letters[1] == Counter()


HIDDEN_COMMENT = "<hp:p><hp:run><hp:t>내부 단가 5억</hp:t></hp:run></hp:p>"


@pytest.mark.parametrize(
    ("inserted", "hidden"),
    [
        (
            f"<hp:ctrl><hp:hiddenComment><hp:subList>{HIDDEN_COMMENT}</hp:subList></hp:hiddenComment></hp:ctrl><hp:t>",
            ("내부 단가 5억", "hidden comment"),
        ),
        ("<hp:t><hp:deleteBegin/>지운 7억<hp:deleteEnd/>", ("지운 7억", "deleted in tracked changes")),
    ],
    ids=["hidden comment", "tracked deletion"],
)
def test_what_hangul_shows_nowhere_is_kept_as_hidden(inserted: str, hidden: tuple[str, str], tmp_path: Path) -> None:
    [page] = changed_sample(tmp_path, "<hp:t>", inserted).pages
    assert [(piece.text, piece.reason) for piece in page.hidden] == [hidden]
    assert [block.text for block in page.blocks] == [block.text for block in read("hwpx").pages[0].blocks]


def test_text_in_the_colour_of_its_ground_or_of_no_size_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """White is seen on the blue of a head of a table."""
    words = [("seen", 200, 20, "#000000"), ("head", 300, 20, "#ffffff"), ("white", 400, 20, "#fefefe")]
    drawn = [
        f'<text x="{100 + 30 * at}" y="{y}" font-size="{size}" fill="{fill}">{letter}</text>'
        for word, y, size, fill in [*words, ("tiny", 500, 1, "#000000")]
        for at, letter in enumerate(word)
    ]
    cell = '<rect x="90" y="270" width="300" height="40" fill="#204080"/>'
    draw(monkeypatch, f'<svg width="800" height="900">{cell}{"".join(drawn)}</svg>')
    blocks = [Block(kind="paragraph", text=text) for text in ("seen white.", "head", "tiny")]
    laid = hwp_layout.convert_and_lay_out([hwp_layout.Part(b"")], converts=False)[1]
    assert not isinstance(laid, str)
    [page] = place_on_pages(blocks, laid)
    assert [block.text for block in page.blocks] == ["seen", "head"]
    assert [(piece.text, piece.reason) for piece in page.hidden] == [
        ("white.", "in the colour of its ground"),
        ("tiny", "font size under 1 pt"),
    ]


@pytest.mark.shared
def test_a_layout_with_fewer_pages_than_the_lines_were_broken_into_is_doubted(shared: Path) -> None:
    """The list of contents puts the last heading on page 10, and the layout on page 9."""
    job = Job(shared / "documents" / "hwp" / "distribution.hwp", digest="x", format="hwp")
    document = read_document(job, options=ReadOptions(), limits=ReadLimits()).document
    assert document.notes[-1] == (
        "page numbers are estimated: the layout has 10 pages, "
        "and the lines of the document were broken into at least 11"
    )


def test_what_is_no_document_has_no_layout() -> None:
    _, why = hwp_layout.convert_and_lay_out([hwp_layout.Part(b"nothing")], converts=False)
    assert why == "the layout engine does not read the document"


def test_header_body_and_footer_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the body's own group draws below its bottom is body: a line that runs over."""
    draw(monkeypatch, DRAWN)
    laid = hwp_layout.convert_and_lay_out([hwp_layout.Part(b"")], converts=False)[1]
    assert not isinstance(laid, str)
    [page] = laid
    assert (page.signs, page.zones) == ("머가넘<", "hbbf")
    assert page.boxes[1] == (75.0, 137.1, 90.0, 152.1)
    assert page.images == ((75.0, 300.0, 105.0, 360.0),)


def test_an_empty_page_before_the_first_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    draw(monkeypatch, '<svg width="8" height="9"></svg>', DRAWN)
    assert len(hwp_layout.convert_and_lay_out([hwp_layout.Part(b"")], converts=False)[1]) == 1
