"""HTML and Markdown: what a browser would show, not how it is marked, and nothing fetched."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.documents.blocks import Block
from tasks.documents.document_readers import Reader, ReadOptions
from tasks.documents.markup_reader import open_html, open_markdown


def _open(folder: Path, source: bytes) -> Reader:
    path = folder / "sample.html"
    path.write_bytes(source)
    return open_html(path, password=None, options=ReadOptions())


def _blocks(folder: Path, source: str) -> list[Block]:
    return [block for page in _open(folder, source.encode()).pages() for block in page.blocks]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<h2>제1장</h2><p>글", [("heading", 2, "제1장"), ("paragraph", None, "글")]),
        ("<p>a <b>b</b>\n c<br>d", [("paragraph", None, "a b c\nd")]),
        ("<div>a<div>b</div>c</div>", [("paragraph", None, "a"), ("paragraph", None, "b"), ("paragraph", None, "c")]),
        ("<ul><li>a<ul><li>b</ul><li>c</ul>", [("list", 1, "• a"), ("list", 2, "• b"), ("list", 1, "• c")]),
        ("<ol start=3><li>a<li>b</ol>", [("list", 1, "3. a"), ("list", 1, "4. b")]),
        ("<pre>x\n  y</pre>", [("paragraph", None, "x\n  y")]),
        ("<p>a<img alt='막대'>b", [("paragraph", None, "ab"), ("figure", None, "막대")]),
        ("<script>x</script><style>y</style><p>z", [("paragraph", None, "z")]),
        ("<p hidden>a</p><p style='display: none'>b</p><p>c", [("paragraph", None, "c")]),
        ("<unheard-of>a</unheard-of>b", [("paragraph", None, "a"), ("paragraph", None, "b")]),
        ("<p>&amp; &#8361; &nbsp;㎡", [("paragraph", None, "& ₩ ㎡")]),
    ],
    ids=["heading", "inline", "div", "list", "numbers", "pre", "image", "script", "hidden", "unknown", "entities"],
)
def test_blocks(tmp_path: Path, source: str, expected: list[tuple[str, int | None, str]]) -> None:
    assert [(block.kind, block.level, block.text) for block in _blocks(tmp_path, source)] == expected


def test_cells_that_span_push_others_aside(tmp_path: Path) -> None:
    rows = "<tr><th rowspan=2>A<th colspan=2>B<tr><td>1<td>2<tr><td>x<td>y<td>z"

    caption, table = _blocks(tmp_path, f"<table><caption>표 1</caption>{rows}</table>")

    assert (caption.kind, caption.text) == ("caption", "표 1")
    assert [(c.row, c.col, c.text, c.row_span, c.col_span, c.header) for c in table.cells] == [
        (0, 0, "A", 2, 1, True),
        (0, 1, "B", 1, 2, True),
        (1, 1, "1", 1, 1, False),
        (1, 2, "2", 1, 1, False),
        (2, 0, "x", 1, 1, False),
        (2, 1, "y", 1, 1, False),
        (2, 2, "z", 1, 1, False),
    ]


def test_a_nested_table_is_text_of_its_cell(tmp_path: Path) -> None:
    assert _blocks(tmp_path, "<table><tr><td>a<table><tr><td>b<td>c</table>")[0].cells[0].text == "a\nb | c"


@pytest.mark.parametrize(("charset", "encoding"), [("euc-kr", "cp949"), ("utf-8", "utf-8"), ("no-such", "cp949")])
def test_the_charset_is_believed_when_all_bytes_fit(tmp_path: Path, charset: str, encoding: str) -> None:
    source = f"<meta charset={charset}><title>공고</title><p>제안요청서 믜</p>".encode(encoding)

    reader = _open(tmp_path, source)

    assert reader.header.title == "공고"
    assert [block.text for page in reader.pages() for block in page.blocks] == ["제안요청서 믜"]


def test_what_lies_three_hundred_levels_deep_is_still_there(tmp_path: Path) -> None:
    assert _blocks(tmp_path, "<b>" * 300 + "deep")[0].text == "deep"


def _markdown_blocks(folder: Path, source: str) -> list[Block]:
    path = folder / "sample.md"
    path.write_text(source)
    return [
        block for page in open_markdown(path, password=None, options=ReadOptions()).pages() for block in page.blocks
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("# 개요 *강조*", [("heading", 1, "개요 강조")]),
        ("Title\n---", [("heading", 2, "Title")]),
        ("a `b` [c](http://x) <b>d</b>", [("paragraph", None, "a b c <b>d</b>")]),
        ("one<br>two", [("paragraph", None, "one\ntwo")]),
        ("- a\n  - b\n- c", [("list", 1, "• a"), ("list", 2, "• b"), ("list", 1, "• c")]),
        ("3. a\n4. b", [("list", 1, "3. a"), ("list", 1, "4. b")]),
        ("1. a\n\n   more", [("list", 1, "1. a"), ("list", 1, "more")]),
        ("```python\nx = 1\n```", [("paragraph", None, "x = 1")]),
        ("> quoted", [("paragraph", None, "quoted")]),
        ("![막대](x.png)", [("figure", None, "막대")]),
        ("<table><tr><td>a<td>b</table>", [("table", None, "a | b")]),
        ("<script>evil()</script>\n\nfine", [("paragraph", None, "fine")]),
    ],
)
def test_markdown_blocks(tmp_path: Path, source: str, expected: list[tuple[str, int | None, str]]) -> None:
    assert [(block.kind, block.level, block.text) for block in _markdown_blocks(tmp_path, source)] == expected


def test_a_table_has_cells_and_header(tmp_path: Path) -> None:
    cells = _markdown_blocks(tmp_path, "| 항목 | 금액 |\n|---|--:|\n| 서버 | **1,000** |")[0].cells

    assert [(cell.row, cell.col, cell.text, cell.header) for cell in cells] == [
        (0, 0, "항목", True),
        (0, 1, "금액", True),
        (1, 0, "서버", False),
        (1, 1, "1,000", False),
    ]


def test_front_matter_is_metadata(tmp_path: Path) -> None:
    path = tmp_path / "sample.md"
    path.write_text('---\ntitle: "제안서"\nauthor: 김\n---\n# 장\n')

    header = open_markdown(path, password=None, options=ReadOptions()).header

    assert (header.title, header.metadata["author"]) == ("제안서", "김")
