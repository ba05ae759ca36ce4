"""Chunks: nothing is lost, nothing is cut where it hurts, and every part of a table can be read by itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.documents.blocks import BBox, Block, Cell, Document, Kind, Page, PageStatus, Place
from tasks.rag.indexing.chunk_pieces import split_text
from tasks.rag.indexing.chunks import Chunk, FigureText, chunk_document

DIGEST = "ab" * 32


def _document(*pages: Sequence[Block]) -> Document:
    """A document whose blocks know their page, number and headings."""
    built: list[Page] = []
    headings: list[Block] = []
    count = 0
    for number, blocks in enumerate(pages, start=1):
        placed: list[Block] = []
        for block in blocks:
            if block.kind == "heading":
                headings = [above for above in headings if (above.level or 1) < (block.level or 1)]
            path = tuple(" ".join(heading.text.split()) for heading in headings)
            placed.append(block.model_copy(update={"page": number, "place": Place(block=count, heading_path=path)}))
            headings += [block] if block.kind == "heading" else []
            count += 1
        built.append(Page(number=number, status=PageStatus.OK, blocks=tuple(placed)))
    return Document(format="pdf", reader="test", page_source="stored", pages=tuple(built))


def _block(text: str, kind: Kind = "paragraph", *, level: int | None = None, bbox: BBox | None = None) -> Block:
    return Block(kind=kind, text=text, level=level, bbox=bbox)


def _heading(text: str, level: int = 1) -> Block:
    return _block(text, "heading", level=level)


def _table(*rows: Sequence[str], headers: int = 0) -> Block:
    cells = [
        Cell(row=row, col=col, text=text, header=row < headers)
        for row, texts in enumerate(rows)
        for col, text in enumerate(texts)
    ]
    return Block(kind="table", text="\n".join(" | ".join(row) for row in rows), cells=tuple(cells))


def _chunks(*pages: Sequence[Block], chunk_chars: int = 800, overlap_chars: int = 120) -> list[Chunk]:
    return chunk_document(_document(*pages), digest=DIGEST, chunk_chars=chunk_chars, overlap_chars=overlap_chars)


def _texts(*pages: Sequence[Block], chunk_chars: int = 800, overlap_chars: int = 120) -> list[str]:
    return [chunk.text for chunk in _chunks(*pages, chunk_chars=chunk_chars, overlap_chars=overlap_chars)]


def _pieces(text: str, most_chars: int, overlap_chars: int = 0) -> list[str]:
    return [text[start:end] for start, end in split_text(text, most_chars=most_chars, overlap_chars=overlap_chars)]


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("하나이다. 둘이다. 셋이다.", 11, ["하나이다. 둘이다.", "셋이다."]),
        ("One ends. Two ends! Three?", 19, ["One ends. Two ends!", "Three?"]),
        ("사업비는 1,234,567원", 9, ["사업비는", "1,234,567", "원"]),
        ("version 2.5 is out", 12, ["version 2.5", "is out"]),
        ("제1호. 1. 첫째 항목이다.", 12, ["제1호.", "1. 첫째 항목이다."]),
        ("line one\nline two", 12, ["line one", "line two"]),
        ("가" * 25, 10, ["가" * 10, "가" * 10, "가" * 5]),
        ("   \n ", 10, []),
    ],
    ids=["Korean", "English", "number", "decimal", "numbered", "lines", "unbreakable", "blank"],
)
def test_text_is_cut_where_it_hurts_least(text: str, most: int, expected: list[str]) -> None:
    assert _pieces(text, most) == expected


def test_a_piece_begins_with_whole_sentences_of_the_one_before() -> None:
    assert _pieces("First one. Second one. Third one. Fourth one.", 35, 12) == [
        "First one. Second one. Third one.",
        "Third one. Fourth one.",
    ]


@given(
    text=st.text(alphabet="가나다 abc.!?\n;,123()", max_size=400),
    most=st.integers(10, 60),
    overlap=st.integers(0, 9),
)
def test_every_sign_is_in_some_piece_in_order(text: str, most: int, overlap: int) -> None:
    spans = split_text(text, most_chars=most, overlap_chars=overlap)

    covered = [any(start <= place < end for start, end in spans) for place in range(len(text))]
    assert all(inside or sign.isspace() for sign, inside in zip(text, covered, strict=True))
    assert all(0 < end - start <= most for start, end in spans)
    assert spans == sorted(spans)
    assert all(after.start >= before.end - overlap for before, after in pairwise(spans))


def test_small_sections_below_the_same_heading_are_joined() -> None:
    chunks = _chunks([_heading("제1장"), _heading("가.", 2), _block("하나"), _heading("나.", 2), _block("둘")])

    assert [(chunk.text, chunk.heading_path) for chunk in chunks] == [("제1장\n가.\n하나\n나.\n둘", ("제1장",))]


def test_no_chunk_crosses_a_page() -> None:
    assert [chunk.page for chunk in _chunks([_block("가")], [_block("나")])] == [1, 2]


def test_headings_lead_the_search_text_once() -> None:
    inside, below = _chunks([_heading("제1장")], [_block("본문")])

    assert (inside.search_text, below.search_text) == ("제1장", "제1장\n본문")


def test_the_box_is_the_union_of_the_blocks_that_were_used() -> None:
    first = _block("가" * 30 + ".", bbox=(10, 10, 50, 20))
    second = _block("나" * 30 + ".", bbox=(20, 30, 90, 40))

    assert _chunks([first, second])[0].bbox == (10, 10, 90, 40)
    assert [chunk.bbox for chunk in _chunks([first, second], chunk_chars=40, overlap_chars=0)] == [
        first.bbox,
        second.bbox,
    ]


ROWS = [(f"항목 {number}", f"{number},000", f"{number}.5") for number in range(1, 9)]


def test_every_part_of_a_table_repeats_caption_unit_and_header() -> None:
    lead = [_block("표 1. 예산", "caption"), _block("(단위: 천원)")]
    table = _table(("구분", "2023년", "2024년"), *ROWS, headers=1)

    texts = _texts([_block("앞 문단은 표와 상관없다. " * 12), *lead, table], chunk_chars=100, overlap_chars=0)

    parts = [text for text in texts if "항목" in text]
    assert len(parts) > 1
    assert all(part.startswith("표 1. 예산\n(단위: 천원)\n구분 | 2023년 | 2024년\n항목") for part in parts)
    assert [line for part in parts for line in part.splitlines()[3:]] == [" | ".join(row) for row in ROWS]


def test_merged_headers_and_labels_are_resolved() -> None:
    cells = (
        Cell(row=0, col=0, text="구분", row_span=2, header=True),
        Cell(row=0, col=1, text="매출", col_span=2, header=True),
        Cell(row=1, col=1, text="2023", header=True),
        Cell(row=1, col=2, text="2024", header=True),
        Cell(row=2, col=0, text="본사", row_span=2),
        Cell(row=2, col=1, text="10"),
        Cell(row=2, col=2, text="20"),
        Cell(row=3, col=1, text="30", col_span=2),
    )

    assert _chunks([Block(kind="table", text="…", cells=cells)])[0].sentences == (
        "본사 — 매출 2023: 10; 매출 2024: 20",
        "본사 — 매출 2023, 2024: 30",
    )


@pytest.mark.parametrize(
    ("rows", "header"),
    [
        ([("", "2023", "2024"), ("Sales", "1", "2"), ("Cost", "3", "4")], "a | 2023 | 2024"),
        ([("", "13 Weeks Ended", ""), ("", "May 1,", "May 2,"), ("Sales", "1", "2"), ("Cost", "3", "4")], "two rows"),
        ([("사업명", "차세대"), ("기간", "3개월"), ("문의", "조달청")], None),
        ([("이름", "부서", "비고"), ("가", "나", "다"), ("라", "마", "바")], "words"),
        ([("1", "2"), ("3", "4")], None),
    ],
    ids=["years", "two rows", "label and value", "words only", "numbers only"],
)
def test_header_rows_are_found_without_marks(rows: list[tuple[str, ...]], header: str | None) -> None:
    sentences = _chunks([_table(*rows)])[0].sentences

    count = {None: 0, "two rows": 2}.get(header, 1)
    assert len(sentences) == len(rows) - count


def test_a_table_that_goes_on_takes_over_the_header() -> None:
    table, rest = _table(("구분", "금액"), ("가", "1"), headers=1), _table(("나", "2"), ("다", "3"))

    first, second = _chunks([_block("앞"), table], [rest, _block("뒤")])[:2]

    assert (second.page, second.text) == (2, "구분 | 금액\n나 | 2\n다 | 3")
    assert second.sentences == ("나 — 금액: 2", "다 — 금액: 3")
    assert first.page == 1


def test_captions_below_tables_stay_with_their_table() -> None:
    one, two = _table(("a", "1"), ("b", "2")), _table(("c", "3"), ("d", "4"))

    texts = _texts([one, _block("Table 1", "caption"), two, _block("Table 2", "caption")])

    assert texts == ["Table 1\na | 1\nb | 2", "Table 2\nc | 3\nd | 4"]


def test_a_span_of_a_billion_is_harmless() -> None:
    cells = (Cell(row=0, col=0, text="a", col_span=10**9, row_span=10**9), Cell(row=1, col=10**9, text="b"))

    assert _texts([Block(kind="table", text="a\nb", cells=cells)]) == ["a\nb"]


def test_a_figure_is_a_chunk_with_its_label() -> None:
    document = _document([_block("본문")])
    figure = FigureText(page=1, n=2, bbox=(0, 0, 10, 10), text="매출 추이")

    chunk = chunk_document(document, digest=DIGEST, figures=[figure])[-1]

    assert (chunk.kind, chunk.text, chunk.page, chunk.bbox) == (
        "figure",
        "[PAGE 1 IMAGE 2]\n매출 추이",
        1,
        (0, 0, 10, 10),
    )


def test_headers_and_footers_make_one_chunk_at_the_end() -> None:
    margin = [_block("공고 제2024-1호", "header"), _block("- 1 -", "footer")]

    assert _texts([*margin, _block("가")], [*margin, _block("나")]) == ["가", "나", "공고 제2024-1호"]


WORDS = st.text(alphabet="가나다라 abc.,123\n", min_size=1, max_size=120).filter(lambda text: bool(text.strip()))
KINDS: st.SearchStrategy[Kind] = st.sampled_from(("paragraph", "heading", "list", "caption", "note", "figure"))
TEXTS = st.builds(lambda kind, text, level: _block(text, kind, level=level), KINDS, WORDS, st.integers(1, 3))
TABLES = st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=5).map(lambda rows: _table(*rows))


@settings(max_examples=150)
@given(
    pages=st.lists(st.lists(st.one_of(TEXTS, TABLES), max_size=6), max_size=3),
    chunk_chars=st.sampled_from((40, 100, 300)),
)
def test_nothing_of_a_document_is_lost(pages: list[list[Block]], chunk_chars: int) -> None:
    document = _document(*pages)
    chunks = chunk_document(document, digest=DIGEST, chunk_chars=chunk_chars, overlap_chars=15)

    assert [chunk.id for chunk in chunks] == [f"{DIGEST[:16]}-{number:05d}" for number in range(len(chunks))]
    assert all(len(chunk.text) <= chunk_chars for chunk in chunks if chunk.kind == "text")
    for page in document.pages:
        told = [sign for chunk in chunks if chunk.page == page.number for sign in chunk.text if sign.isalnum()]
        for block in page.blocks:
            texts = [cell.text for cell in block.cells] or [block.text]
            signs = iter(told)
            assert all(sign in signs for text in texts for sign in text if sign.isalnum())
    assert chunks == chunk_document(document, digest=DIGEST, chunk_chars=chunk_chars, overlap_chars=15)


def test_a_piece_of_a_long_sheet_names_its_own_cells() -> None:
    cells = tuple(
        Cell(row=row, col=col, text=text, header=row == 0)
        for row, line in enumerate([("부서", "금액"), *((f"{n}번 부서", f"{n},000") for n in range(1, 61))])
        for col, text in enumerate(line)
    )
    place = Place(block=0, cells="Sheet '예산', B3:C63")
    table = Block(kind="table", text="all rows", cells=cells, place=place)
    document = Document(
        format="xlsx",
        reader="r",
        page_source="none",
        pages=(Page(number=None, status=PageStatus.OK, blocks=(table,)),),
    )
    chunks = chunk_document(document, digest="a" * 64, chunk_chars=400, overlap_chars=40)
    assert len(chunks) > 2
    assert chunks[0].cells is not None
    assert chunks[0].cells.startswith("Sheet '예산', B4:C")
    last = chunks[-1].text.splitlines()[1].split("번")[0]
    assert chunks[-1].cells == f"Sheet '예산', B{int(last) + 3}:C63"


def test_a_table_carries_the_notes_that_its_marks_name() -> None:
    table = _table(("Crop", "2021"), ("Barley¹", "1,240^(주1)"), ("Rye", "88*"), headers=1)
    notes = ("1 Sown late.", "2 Of no table.", "주1) 잠정치", "* Without seed.", "1. An item.")
    texts = _texts([table, *map(_block, notes)])
    assert texts[0].splitlines()[3:] == ["1 Sown late.", "주1) 잠정치", "* Without seed."]
