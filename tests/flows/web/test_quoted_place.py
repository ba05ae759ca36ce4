"""The boxes of a quote are those of its paragraphs or of its row, and never more than its passage."""

from __future__ import annotations

import pytest

from flows.service.web.quoted_place import boxes_of
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
