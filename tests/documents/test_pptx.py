"""Presentations written by python-pptx: slides, places, tables, charts, notes, and files that mean harm."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.dml.color import RGBColor
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Pt

from tasks.documents.blocks import Page, PageStatus
from tasks.documents.document_readers import Reader, ReadOptions
from tasks.documents.pptx_reader import open_pptx, pptx_images
from tests.documents.zips import changed

TITLE_AND_CONTENT, TITLE_ONLY, BLANK = 1, 5, 6
WHITE = RGBColor(255, 255, 255)
RED = io.BytesIO()
Image.new("RGB", (40, 20), "red").save(RED, "PNG")


def deck(path: Path, *slides: tuple[int, Callable[[Any], object]]) -> Path:
    """A presentation whose slides have these layouts and are filled by these functions."""
    made = Presentation()
    for layout, fill in slides:
        fill(made.slides.add_slide(made.slide_layouts[layout]))
    made.save(str(path))
    return path


def read(path: Path) -> Reader:
    return open_pptx(path, password=None, options=ReadOptions())


def pages(path: Path) -> list[Page]:
    return list(read(path).pages())


def told(page: Page) -> list[tuple[str, str]]:
    return [(block.kind, block.text) for block in page.blocks]


def plan(slide: Any) -> None:
    slide.shapes.title.text = "Plan\vof May"
    slide.placeholders[1].text = "Lamps\nMasts"
    slide.placeholders[1].text_frame.paragraphs[1].level = 1
    slide.notes_slide.notes_text_frame.text = "Say that masts come late."


def test_a_slide_is_a_page_with_heading_list_and_notes(tmp_path: Path) -> None:
    path = deck(tmp_path / "a.pptx", (TITLE_AND_CONTENT, plan), (BLANK, lambda slide: None))

    first, second = pages(path)

    assert told(first) == [
        ("heading", "Plan of May"),
        ("list", "Lamps"),
        ("list", "Masts"),
        ("note", "Say that masts come late."),
    ]
    assert [block.level for block in first.blocks] == [1, 1, 2, None]
    assert (first.number, second.number, second.status, second.reason) == (1, 2, PageStatus.EMPTY, "blank slide")


def boxed(slide: Any, text: str, at: tuple[int, int]) -> None:
    slide.shapes.add_textbox(Pt(at[0]), Pt(at[1]), Pt(100), Pt(30)).text_frame.text = text


def test_boxes_are_points_and_texts_stand_from_the_top(tmp_path: Path) -> None:
    def fill(slide: Any) -> None:
        boxed(slide, "below", (50, 300))
        boxed(slide, "right", (200, 40))
        boxed(slide, "left", (50, 40))

    page = pages(deck(tmp_path / "a.pptx", (BLANK, fill)))[0]

    assert [block.text for block in page.blocks] == ["left", "right", "below"]
    assert page.blocks[0].bbox == (50, 40, 150, 70)
    assert (page.width, page.height) == (720, 540)


def test_a_table_keeps_merged_cells_and_its_header(tmp_path: Path) -> None:
    def fill(slide: Any) -> None:
        table = slide.shapes.add_table(2, 3, Pt(10), Pt(20), Pt(300), Pt(60)).table
        for (row, col), text in {(0, 0): "Year", (0, 1): "Cost", (1, 0): "2023", (1, 1): "12", (1, 2): "15"}.items():
            table.cell(row, col).text = text
        table.cell(0, 1).merge(table.cell(0, 2))

    (table,) = pages(deck(tmp_path / "a.pptx", (BLANK, fill)))[0].blocks

    assert (table.kind, table.text, table.bbox) == ("table", "Year | Cost\n2023 | 12 | 15", (10, 20, 310, 80))
    assert [(cell.text, cell.col_span, cell.header) for cell in table.cells][:3] == [
        ("Year", 1, True),
        ("Cost", 2, True),
        ("2023", 1, False),
    ]


def test_the_data_of_a_chart_is_a_table(tmp_path: Path) -> None:
    def fill(slide: Any) -> None:
        data = CategoryChartData()
        data.categories = ["2022", "2023"]
        data.add_series("Lamps", (10, 12.5))
        data.add_series("Masts", (3, None))
        chart = slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, Pt(0), Pt(0), Pt(300), Pt(200), data).chart
        chart.has_title = True
        chart.chart_title.text_frame.text = "Stock"

    page = pages(deck(tmp_path / "a.pptx", (BLANK, fill)))[0]

    assert told(page) == [("caption", "Stock"), ("table", " | Lamps | Masts\n2022 | 10 | 3\n2023 | 12.5 | ")]


def test_pictures_are_figures_with_their_words_and_can_be_looked_at(tmp_path: Path) -> None:
    def fill(slide: Any) -> None:
        picture = slide.shapes.add_picture(io.BytesIO(RED.getvalue()), Pt(10), Pt(20), Pt(80), Pt(40))
        picture._element.nvPicPr.cNvPr.set("descr", "a red field")

    path = deck(tmp_path / "a.pptx", (BLANK, lambda slide: None), (BLANK, fill))

    (figure,) = pages(path)[1].blocks
    (picture,) = pptx_images(path, password=None)
    assert (figure.kind, figure.text, figure.bbox) == ("figure", "a red field", (10, 20, 90, 60))
    assert (picture.page, picture.bbox, picture.width, picture.height) == (2, (10, 20, 90, 60), 40, 20)


def test_macros_are_said(tmp_path: Path) -> None:
    path = deck(tmp_path / "a.pptx", (TITLE_AND_CONTENT, plan))
    changed(path, "ppt/vbaProject.bin", lambda _: "Sub AutoOpen()")

    assert read(path).header.notes == ("The presentation holds macros; they were neither read nor run.",)


def test_a_hidden_slide_is_kept_as_hidden(tmp_path: Path) -> None:
    path = deck(tmp_path / "a.pptx", (TITLE_AND_CONTENT, plan), (TITLE_AND_CONTENT, plan))
    changed(path, "ppt/slides/slide1.xml", lambda xml: xml.replace("<p:sld ", '<p:sld show="0" ', 1))

    first, second = pages(path)

    assert (first.blocks, first.reason, len(second.blocks)) == ((), "the slide is hidden", 4)
    assert [(entry.reason, entry.text) for entry in first.hidden][:2] == [
        ("hidden slide", "Plan of May"),
        ("hidden slide", "Lamps"),
    ]


def test_shapes_and_letters_that_nobody_sees_are_hidden(tmp_path: Path) -> None:
    def fill(slide: Any) -> None:
        boxed(slide, "seen", (50, 40))
        boxed(slide, "beside the slide", (900, 40))
        boxed(slide, "switched off", (50, 80))
        slide.shapes[2]._element.nvSpPr.cNvPr.set("hidden", "1")
        for text, look in {"white": WHITE, "tiny": Pt(1)}.items():
            boxed(slide, text, (50, 120))
            font = slide.shapes[-1].text_frame.paragraphs[0].runs[0].font
            if look is WHITE:
                font.color.rgb = look
            else:
                font.size = look

    (page,) = pages(deck(tmp_path / "a.pptx", (BLANK, fill)))

    assert told(page) == [("paragraph", "seen")]
    assert {(entry.text, entry.reason) for entry in page.hidden} == {
        ("beside the slide", "off the slide"),
        ("switched off", "hidden shape"),
        ("white", "in the colour of its ground"),
        ("tiny", "letters of a point or less"),
    }


def test_what_a_filled_shape_covers_or_has_the_colour_of_is_hidden(tmp_path: Path) -> None:
    def fill(slide: Any) -> None:
        for text in ("covered", "word " * 400, "turned"):
            boxed(slide, text, (50, 200))
        slide.shapes[-1].rotation = 90
        for text, top, color in (("over it", 200, WHITE), ("white", 300, WHITE), ("on blue", 400, RGBColor(0, 0, 128))):
            boxed(slide, text, (50, top))
            slide.shapes[-1].fill.solid()
            slide.shapes[-1].fill.fore_color.rgb = color
            if text != "over it":
                slide.shapes[-1].text_frame.paragraphs[0].runs[0].font.color.rgb = WHITE

    (page,) = pages(deck(tmp_path / "a.pptx", (BLANK, fill)))

    assert {text for _, text in told(page)} == {("word " * 400).strip(), "turned", "over it", "on blue"}
    assert [entry.text for entry in page.hidden] == ["white", "covered"]


def test_a_damaged_slide_costs_no_other(tmp_path: Path) -> None:
    path = deck(tmp_path / "a.pptx", (TITLE_AND_CONTENT, plan), (TITLE_AND_CONTENT, plan))
    changed(path, "ppt/slides/slide1.xml", lambda xml: xml.replace("<a:off x=", '<a:off x="much" y="0"/><a:off x='))
    changed(path, "ppt/slides/slide1.xml", lambda xml: xml.replace('type="title"', 'type="nothing"'))

    first, second = pages(path)

    assert (first.status, second.status) == (PageStatus.ERROR, PageStatus.OK)
    assert "the slide is damaged" in str(first.reason)


def test_entities_are_not_expanded(tmp_path: Path) -> None:
    path = deck(tmp_path / "a.pptx", (TITLE_AND_CONTENT, plan))
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    declared = f'<!DOCTYPE p:sld [<!ENTITY x SYSTEM "{secret.as_uri()}"><!ENTITY y "yyyy">]>'
    changed(path, "ppt/slides/slide1.xml", lambda xml: xml.replace("<p:sld ", f"{declared}<p:sld ", 1))
    changed(path, "ppt/slides/slide1.xml", lambda xml: xml.replace("Lamps", "Lamps &x; &y;"))

    text = " ".join(block.text for page in pages(path) for block in page.blocks)

    assert "secret" not in text
    assert "yyyy" not in text
