"""The boxes of a quote are those of its paragraphs or of its row, and never more than its passage."""

from __future__ import annotations

import pytest

from flows.service.web.place_page import Line, boxes_of, lines_about
from tasks.documents.blocks import BBox, Block, Cell

PASSAGE = (10.0, 10.0, 200.0, 100.0)
ONE, TWO, OTHER = (10.0, 10.0, 190.0, 30.0), (10.0, 40.0, 200.0, 60.0), (10.0, 200.0, 200.0, 220.0)
TABLE = Block(
    kind="table",
    text="item | 2023\nrent | 7\nfuel | 9",
    bbox=(10.0, 70.0, 200.0, 100.0),
    cells=tuple(
        Cell(row=row, col=col, text=text, bbox=(10.0 + 90 * col, 70.0 + 10 * row, 90.0 + 90 * col, 79.0 + 10 * row))
        for row, texts in enumerate((("item", "2023"), ("rent", "7"), ("fuel", "9")))
        for col, text in enumerate(texts)
    ),
)
BLOCKS = (
    Block(kind="paragraph", text="It is cold.\nThe  snow lies.", bbox=ONE),
    Block(kind="paragraph", text="Salt is strewn.", bbox=TWO),
    Block(kind="paragraph", text="Salt is strewn.", bbox=OTHER),
    Block(kind="paragraph", text="Without a box. Salt is strewn."),
    TABLE,
)


@pytest.mark.parametrize(
    ("quote", "boxes"),
    [
        ("The snow lies.", (ONE,)),
        ("Salt is strewn.", (TWO,)),
        ("It is cold. The snow lies. Salt is strewn.", (ONE, TWO)),
        ("fuel | 9", ((10.0, 90.0, 180.0, 99.0),)),
        ("Nothing of this.", (PASSAGE,)),
        (" ", (PASSAGE,)),
    ],
    ids=["in a paragraph", "within the passage", "two paragraphs", "row", "elsewhere", "empty"],
)
def test_a_quote_has_the_boxes_of_what_holds_it(quote: str, boxes: tuple[BBox, ...]) -> None:
    assert boxes_of(quote, within=PASSAGE, blocks=BLOCKS) == boxes


SHEET = Block(
    kind="table",
    text="",
    cells=tuple(
        Cell(row=row, col=col, text=text)
        for row, texts in enumerate((("line", "2022", "2023"), *((f"fleet {n}", f"{n}1", f"{n}2") for n in range(9))))
        for col, text in enumerate(texts)
    ),
)


def test_a_quote_of_a_sheet_stands_under_the_head_of_its_table_with_the_rows_about_it() -> None:
    lines = lines_about("fleet 6; 2023: 62", (Block(kind="heading", text="Fleets"), SHEET))
    assert lines[0] == Line(("line", "2022", "2023"))
    assert [line.cells[0] for line in lines[1:]] == ["fleet 3", "fleet 4", "fleet 5", "fleet 6", "fleet 7", "fleet 8"]
    assert [line.cells for line in lines if line.quoted] == [("fleet 6", "61", "62")]


def test_a_quote_of_a_text_stands_among_its_paragraphs() -> None:
    assert [line.quoted for line in lines_about("The snow lies.", BLOCKS)] == [True, False, False, False]


def test_words_that_stand_nowhere_have_no_lines() -> None:
    assert lines_about("Nobody was asked.", BLOCKS) == lines_about(" ", BLOCKS) == ()
