"""Blocks find their pages and boxes among the signs that a layout engine draws; pages become one document."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter

import pytest

from tasks.documents.blocks import Block, Cell, Kind, Page, PageStatus
from tasks.documents.document_readers import format_table, join_pages
from tasks.documents.hwp import hwp_layout
from tasks.documents.hwp.hwp_layout import run_in_own_process
from tasks.documents.page_join import LaidPage, LayoutFailed, place_on_pages

SIZE = 10.0


def page(*lines: str, header: str = "", footer: str = "", images: int = 0) -> LaidPage:
    """A page of 500 x 700 points on which each sign is 10 points wide; header at 0, footer at 690."""
    placed = [(header, "h", 0.0), *((line, "b", 20.0 + 20 * n) for n, line in enumerate(lines)), (footer, "f", 690.0)]
    signs = [
        (sign, zone, (SIZE * column, top, SIZE * (column + 1), top + SIZE))
        for line, zone, top in placed
        for column, sign in enumerate(line)
        if not sign.isspace()
    ]
    text, zones = "".join(one[0] for one in signs), "".join(one[1] for one in signs)
    drawn = ((100.0, 100.0, 200.0, 200.0),) * images
    return LaidPage(500.0, 700.0, text, zones, tuple(one[2] for one in signs), drawn)


def paragraph(text: str) -> Block:
    return Block(kind="paragraph", text=text)


def table(*rows: tuple[str, ...], header: bool = False) -> Block:
    cells = tuple(
        Cell(row=row, col=col, text=text, header=header and row == 0)
        for row, texts in enumerate(rows)
        for col, text in enumerate(texts)
    )
    return Block(kind="table", text=format_table(cells), cells=cells)


def told(blocks: list[Block], *laid: LaidPage) -> list[tuple[int | None, str]]:
    return [(page.number, block.text) for page in place_on_pages(blocks, laid) for block in page.blocks]


def test_a_block_has_the_page_and_the_box_of_its_signs() -> None:
    [_, second] = place_on_pages([paragraph("alpha beta"), paragraph("gamma")], [page("alpha beta"), page("", "gamma")])
    assert [(block.text, block.page, block.bbox) for block in second.blocks] == [("gamma", 2, (0.0, 40.0, 50.0, 50.0))]


def test_a_paragraph_that_goes_over_a_page_is_cut_there() -> None:
    laid = (page("the first half of the words"), page("and all that comes after them"))
    assert told([paragraph("the first half of the words and all that comes after them")], *laid) == [
        (1, "the first half of the words"),
        (2, "and all that comes after them"),
    ]


def test_the_rows_of_a_table_stand_on_their_pages_below_the_header_that_is_repeated() -> None:
    block = table(("name", "amount"), ("wood", "1,200"), ("steel", "3,400"), header=True)
    laid = (page("name amount", "wood 1,200"), page("name amount", "steel 3,400"))
    assert told([block], *laid) == [(1, "name | amount\nwood | 1,200"), (2, "name | amount\nsteel | 3,400")]


def test_headers_and_footers_stand_on_every_page_with_their_numbers() -> None:
    blocks = [paragraph("alpha"), paragraph("gamma"), Block(kind="header", text="The Report")]
    laid = (page("alpha", header="The Report", footer="- 1 -"), page("gamma", header="The Report", footer="- 2 -"))
    assert told(blocks, *laid) == [
        (1, "The Report"), (1, "alpha"), (1, "- 1 -"),
        (2, "The Report"), (2, "gamma"), (2, "- 2 -"),
    ]  # fmt: skip


def test_notes_stand_at_the_feet_of_their_pages() -> None:
    blocks = [paragraph("alpha"), paragraph("gamma"), Block(kind="note", text="1) a note on alpha")]
    assert told(blocks, page("alpha", "1) a note on alpha"), page("gamma")) == [
        (1, "alpha"),
        (1, "1) a note on alpha"),
        (2, "gamma"),
    ]


def test_what_the_layout_does_not_show_stands_between_its_neighbours_and_the_page_says_so() -> None:
    unshown = [paragraph(f"sentence {n} that no page shows") for n in range(4)]
    blocks = [paragraph("alpha of the first"), *unshown, paragraph("gamma of the last")]
    pages = place_on_pages(blocks, [page("alpha of the first"), page("drawn only"), page("gamma of the last")])
    assert [block.page for page in pages for block in page.blocks if block.place.estimated] == [1, 1, 2, 2]
    assert [page.reason for page in pages] == [
        "estimated: the layout does not show 2 of 3 blocks, which stand by their order",
        "estimated: the layout does not show 2 of 2 blocks, which stand by their order",
        None,
    ]


def test_short_texts_that_repeat_stand_where_they_are_drawn() -> None:
    """`none` after each heading: it is the order that tells which one is meant."""
    texts = [text for n in range(9) for text in (f"{n}. effect on group {n}", "none")]
    pages = place_on_pages([*map(paragraph, texts)], [page(*texts[:7]), page(*texts[7:])])
    assert [(page.number, len(page.blocks)) for page in pages] == [(1, 7), (2, 11)]
    assert all(block.bbox for page in pages for block in page.blocks)


def test_a_line_that_is_drawn_above_its_table_stands_before_it() -> None:
    laid = page("criteria", "name amount")
    assert told([table(("name", "amount")), paragraph("criteria")], laid) == [(1, "criteria"), (1, "name | amount")]


def test_a_figure_takes_the_image_between_its_neighbours() -> None:
    figure = Block(kind="figure", text="")
    [_, second] = place_on_pages([paragraph("alpha"), figure], [page("alpha"), page(images=1)])
    assert [(block.kind, block.bbox) for block in second.blocks] == [("figure", (100.0, 100.0, 200.0, 200.0))]


def test_a_page_of_curves_without_text_says_that_it_is_not_read() -> None:
    drawn = page()._replace(curves=300)
    [_, second] = place_on_pages([paragraph("alpha")], [page("alpha")._replace(curves=300), drawn])
    assert second.reason == "drawn text, not read: the page has curves and no text"


def test_a_layout_of_another_text_is_refused() -> None:
    with pytest.raises(LayoutFailed, match="shows nothing of the text"):
        place_on_pages([paragraph("nothing of it")], [page("ALPHA")])


def test_no_letter_is_lost_or_told_twice() -> None:
    blocks = [paragraph("one two three four"), table(("five six", "seven"), ("eight nine", "ten")), paragraph("eleven")]
    laid = (page("one two three"), page("four", "five six seven eight"), page("nine ten", "eleven"))
    letters = Counter("".join("".join(text.split()) for _, text in told(blocks, *laid)).replace("|", ""))
    assert letters == Counter("onetwothreefourfivesixseveneightnineteneleven")


def test_a_text_box_far_ahead_does_not_take_the_text_along() -> None:
    title, rest = "the title of it all", [f"sentence {n} of the body" for n in range(30)]
    blocks = [paragraph(title), *map(paragraph, rest)]
    laid = (page(*rest[:20]), page(*rest[20:], title))
    assert [number for number, _ in told(blocks, *laid)] == [1] * 20 + [2] * 11


def test_a_crash_of_the_engine_is_a_failed_layout() -> None:
    with pytest.raises(LayoutFailed, match=r"crashed .*exit code -9"):
        next(run_in_own_process(lambda: os.kill(os.getpid(), signal.SIGKILL) or []))


def test_a_hanging_engine_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hwp_layout, "WALL_S", 0.2)
    with pytest.raises(LayoutFailed, match="crashed or took more"):
        next(run_in_own_process(lambda: time.sleep(60) or []))


def test_a_panic_of_the_engine_is_told_without_its_words() -> None:
    def panic() -> list[str]:
        raise ValueError("index out of bounds at layout.rs")

    with pytest.raises(LayoutFailed, match=r"^the layout engine crashed$"):
        next(run_in_own_process(panic))


def read_page(number: int, *blocks: tuple[Kind, str, int | None]) -> Page:
    made = tuple(Block(kind=kind, text=text, level=level, page=number) for kind, text, level in blocks)
    return Page(number=number, status=PageStatus.OK, blocks=made)


def test_headings_reach_over_the_page_and_blocks_are_counted_on() -> None:
    pages = join_pages(
        [
            read_page(1, ("heading", "제1장 사업 개요", 1), ("heading", "1. 배경", 2), ("footer", "- 1 -", None)),
            read_page(2, ("paragraph", "본문", None), ("heading", "제2장 요구사항", 1), ("paragraph", "표", None)),
        ]
    )

    places = [block.place for page in pages for block in page.blocks]
    assert [place.block for place in places] == [0, 1, 2, 3, 4, 5]
    assert [place.heading_path for place in places] == [
        (),
        ("제1장 사업 개요",),
        (),
        ("제1장 사업 개요", "1. 배경"),
        (),
        ("제2장 요구사항",),
    ]
