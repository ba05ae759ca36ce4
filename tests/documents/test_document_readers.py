"""Pages that were read one by one become one document."""

from __future__ import annotations

from tasks.documents.blocks import Block, Kind, Page, PageStatus
from tasks.documents.document_readers import join_pages


def _page(number: int, *blocks: tuple[Kind, str, int | None]) -> Page:
    made = tuple(Block(kind=kind, text=text, level=level, page=number) for kind, text, level in blocks)
    return Page(number=number, status=PageStatus.OK, blocks=made)


def test_headings_reach_over_the_page_and_blocks_are_counted_on() -> None:
    pages = join_pages(
        [
            _page(1, ("heading", "제1장 사업 개요", 1), ("heading", "1. 배경", 2), ("footer", "- 1 -", None)),
            _page(2, ("paragraph", "본문", None), ("heading", "제2장 요구사항", 1), ("paragraph", "표", None)),
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
