"""A table that does not say its scale, and repeats figures of one that does."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tasks.documents.blocks import Block, Page, PageStatus
from tasks.rag.numbers.cell_facts import cell_facts
from tasks.rag.numbers.document_numbers import with_scales
from tests.rag.numbers.test_cell_facts import page

STATEMENT = [("", "2021", "2020"), ("Net sales", "$ 4,822", "$ 5,260"), ("Cost of sales", "2,110", "2,430")]


@pytest.mark.parametrize(
    ("note", "scale"),
    [
        ([("", "2021", "2020"), ("Felt", "$ 1,822", "$ 260"), ("Total", "$ 4,822", "$ 5,260")], 1_000_000),
        ([("", "2021", "2020"), ("Felt", "$ 1,822", "$ 260"), ("Total", "$ 4,822", "$ 5,261")], 1),
        ([("", "2019", "2018"), ("Felt", "$ 1,822", "$ 260"), ("Total", "$ 4,822", "$ 5,260")], 1),
    ],
    ids=["two figures of the statement", "only one", "of other years"],
)
def test_a_table_has_the_scale_of_the_figures_that_it_repeats(note: list[tuple[str, ...]], scale: int) -> None:
    blocks = (*page(STATEMENT, above="(In millions)").blocks, Block(kind="paragraph", text="Sales by product"))
    own = page(note).blocks
    facts = with_scales(cell_facts([Page(number=3, status=PageStatus.OK, blocks=(*blocks, *own))], document="d" * 64))
    assert {fact.scale for fact in facts if fact.table} == {Decimal(scale)}
    assert next(fact.value for fact in facts if fact.row_path == ("Felt",)) == 1_822 * scale
