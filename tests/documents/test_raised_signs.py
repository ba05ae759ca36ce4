"""Raised and lowered signs of every format: marks of notes, exponents, ordinals and fractions are told from digits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import pymupdf as untyped_pymupdf
import pytest

from tasks.documents.document_readers import ReadOptions
from tasks.documents.markup_reader import open_html, open_markdown
from tasks.documents.pdf.pdf_reader import open_pdf
from tests.documents import test_docx, test_hwpx, test_pptx, test_xlsx

pymupdf: Any = untyped_pymupdf


def put(page: Any, x: float, y: float, text: str, font: str = "helv", size: float = 6, rise: float = 4) -> float:
    """Write `<raised>`, `{lowered}` and `[small]` texts among those of 10 points; return where the line ends."""
    looks = {"<": (size, rise), "{": (7, -2), "[": (8, 0)}
    for piece in re.findall(r"[<{\[][^>}\]]*[>}\]]|[^<{\[]+", text):
        points, raised = looks.get(piece[0], (10, 0))
        shown = piece[1:-1] if piece[0] in looks else piece
        page.insert_text((x, y - raised), shown, fontname=font, fontsize=points)
        x += pymupdf.get_text_length(shown, fontname=font, fontsize=points)
    return x


def read(
    page: Any, folder: Path, pdf_reader: Literal["auto", "pymupdf", "pdfplumber"] = "auto"
) -> list[tuple[str, str]]:
    page.parent.save(folder / "drawn.pdf")
    reader = open_pdf(folder / "drawn.pdf", password=None, options=ReadOptions(ocr="off", pdf_reader=pdf_reader))
    return [(block.kind, block.text) for page in reader.pages() for block in page.blocks]


@pytest.mark.parametrize(
    ("size", "rise", "drawn", "expected"),
    [
        (7, 3.6, "5,120<3> in 2018<a>, net", "5,120³ in 2018ᵃ, net"),
        (5, 4.6, "5,120<3> in 2018<4>.", "5,120³ in 2018⁴."),
        (10, 4, "5,120<3> million", "5,120³ million"),
        (6, 4, "the 1<st> and 22<nd> of May", "the 1st and 22nd of May"),
        (6, 4, "W[IDGET]<®> Foo<TM>", "WIDGET® Foo™"),
        (7, 4, "CO{2} a m<2>, 3 x 10<-6>", "CO₂ a m², 3 x 10⁻⁶"),
        (6, 3, "48<1>/{2} cents, 5<3/4>, 1/2", "48½ cents, 5¾, 1/2"),
        (6, 4, "Kim<1,2>, Doe<2,*> wrote", "Kim¹,², Doe²,* wrote"),
        (6, 4, "half of it<(2)> and (1) too", "half of it⁽²⁾ and (1) too"),
        (6, 4, "BRAND<new> shoes", "BRANDnew shoes"),
        (6, 4, "매출액<주1)>은 1,234<1)>백만원", "매출액^(주1)은 1,234¹⁾백만원"),
        (6, 4, "김민수<1),2)>, 박지영<*>", "김민수¹⁾,²⁾, 박지영*"),
    ],
)
def test_the_raised_signs_of_a_line(size: float, rise: float, drawn: str, expected: str, tmp_path: Path) -> None:
    page = pymupdf.open().new_page()
    put(page, 72, 100, drawn, "helv" if drawn.isascii() or "®" in drawn else "korea", size, rise)
    assert read(page, tmp_path) == [("paragraph", expected)]


@pytest.mark.parametrize("reader", ["pymupdf", "pdfplumber"])
def test_every_pdf_reader_raises_marks(reader: Literal["pymupdf", "pdfplumber"], tmp_path: Path) -> None:
    page = pymupdf.open().new_page()
    put(page, 72, 100, "Sales of 5,120<3> in 2018<(a)>")
    assert read(page, tmp_path, reader) == [("paragraph", "Sales of 5,120³ in 2018⁽ᵃ⁾")]


def test_marks_that_are_drawn_last_stand_in_the_cells_of_their_numbers(tmp_path: Path) -> None:
    page = pymupdf.open().new_page()
    rows = (("Apples", "1,250", "2,250"), ("Pears", "250", "990"), ("Total", "1,500", "3,240"))
    ends = [
        put(page, x, 100 + 20 * n, text)
        for n, row in enumerate(rows)
        for x, text in zip((60, 250, 350), row, strict=True)
    ]
    for end, y, mark in ((ends[0] - 2, 100, "1"), (ends[4], 120, "9")):  # the box of a slanted letter is wider
        put(page, end, y, f"<{mark}>", size=5, rise=4.6)
    put(page, 60, 300, "<1>[ Net of tax and of the provision for it.]", rise=3)
    assert read(page, tmp_path) == [
        ("table", "Apples¹ | 1,250 | 2,250\nPears | 250⁹ | 990\nTotal | 1,500 | 3,240"),
        ("note", "¹ Net of tax and of the provision for it."),
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<p>by<sup>1</sup> 10<sup>9</sup> of the 1<sup>st</sup>", ["by¹ 10⁹ of the 1st"]),
        ("<p>CO<sub>2</sub> 48<sup>1</sup>/<sub>2</sub> <sup>[3]</sup>", ["CO₂ 48½ [3]"]),
        ("<table><tr><td>250<span style='vertical-align:super'>9</span><td>Kim<sup>q</sup>", ["250⁹ | Kim^(q)"]),
        ("<p>5<a href='#1'>1</a> 6<a href='#2'><sup>2</sup></a> <a href='#A'>A</a><a href='#B'>B</a>", ["5¹ 6² AB"]),
        ("<p>7<i style='position:relative;top:-3pt;font-size:6pt'>(3)</i>", ["7⁽³⁾"]),
        ("<p>up<sup>" + "a" * 10_000 + "</sup>", ["up" + "a" * 10_000]),
    ],
    ids=["marks", "lowered", "style", "links", "moved up", "a superscript of ten thousand letters"],
)
def test_superscripts_of_html(source: str, expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(source, "utf-8")
    (page,) = open_html(tmp_path / "a.html", password=None, options=ReadOptions()).pages()
    assert [block.text for block in page.blocks] == expected


def test_notes_of_markdown_stand_behind_their_marks(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Sold by[^1] 10<sup>9</sup>, `[^a]`\n\n[^1]: Estimate.\n", "utf-8")
    (page,) = open_markdown(tmp_path / "a.md", password=None, options=ReadOptions()).pages()
    assert [(block.kind, block.text) for block in page.blocks] == [
        ("paragraph", "Sold by¹ 10⁹, [^a]"),
        ("note", "¹ Estimate."),
    ]


def test_superscripts_of_word(tmp_path: Path) -> None:
    def run(text: str, look: str = "") -> str:
        return f"<w:r><w:rPr>{look}</w:rPr><w:t>{text}</w:t></w:r>"

    raised, lowered = (f"<w:vertAlign w:val='{place}script'/>" for place in ("super", "sub"))
    marked, moved = "<w:rStyle w:val='Mark'/>", "<w:position w:val='8'/>"
    tail = run("7", marked) + run(" 250") + run("9", moved)
    body = f"<w:p>{run('1,234')}{run('주1)', raised)}{run(' H')}{run('2', lowered)}{run('O')}{tail}</w:p>"
    style = f"<w:style w:type='character' w:styleId='Mark'><w:rPr>{raised}</w:rPr></w:style>"
    path = test_docx._build(
        tmp_path, body, parts={"word/styles.xml": f"<w:root>{style}</w:root>"}, related=("s styles styles.xml",)
    )
    assert [block.text for block in test_docx._blocks(path)] == ["1,234^(주1) H₂O⁷ 250⁹"]


def test_superscripts_of_presentations_and_sheets(tmp_path: Path) -> None:
    def fill(slide: Any) -> None:
        paragraph = slide.shapes.add_textbox(0, 0, 90_000, 90_000).text_frame.paragraphs[0]
        for text, shift in (("1,234", 0), ("1", 30_000), (" H", 0), ("2", -25_000), ("O", 0)):
            run = paragraph.add_run()
            run.text = text
            run.font._rPr.set("baseline", str(shift))

    def write(book: Any, sheet: Any) -> None:
        raised = book.add_format({"font_script": 1})
        sheet.write_rich_string("A1", "Sales", raised, "1", " in m", raised, "2")

    (slide,) = test_pptx.pages(test_pptx.deck(tmp_path / "a.pptx", (test_pptx.BLANK, fill)))
    (cell,) = test_xlsx.blocks(test_xlsx.written(tmp_path / "a.xlsx", ("A", write)))
    assert [slide.blocks[0].text, cell.text] == ["1,234¹ H₂O", "Sales¹ in m²"]


def test_superscripts_of_hwpx(tmp_path: Path) -> None:
    def run(text: str, shape: int) -> str:
        return f'<hp:run charPrIDRef="{shape}">{test_hwpx.t(text)}</hp:run>'

    shapes = '<hh:charPr id="1"><hh:supscript/></hh:charPr><hh:charPr id="2"><hh:subscript/></hh:charPr>'
    number = '<hp:ctrl><hp:autoNum num="3"><hp:autoNumFormat suffixChar=")"/></hp:autoNum></hp:ctrl>'
    note = test_hwpx.p(number, test_hwpx.t(" 잠정치"))
    anchored = f"<hp:run><hp:ctrl><hp:footNote><hp:subList>{note}</hp:subList></hp:footNote></hp:ctrl></hp:run>"
    runs = "".join(run(text, shape) for text, shape in (("면적 m", 0), ("2", 1), (" H", 0), ("2", 2), ("O", 0)))
    members: dict[str, str | bytes] = {
        "Contents/header.xml": f'<hh:head xmlns:hh="http://www.hancom.co.kr/hwpml/2011/head">{shapes}</hh:head>',
        "Contents/section0.xml": test_hwpx.section(f"<hp:p>{runs}{anchored}</hp:p>"),
    }
    assert [block.text for block in test_hwpx.read(test_hwpx.package(tmp_path, members))] == [
        "면적 m² H₂O³⁾",
        "3) 잠정치",
    ]
