"""Markdown: what it shows, not how it is marked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.documents.blocks import Block
from tasks.documents.document_readers import ReadOptions
from tasks.documents.markup_reader import open_markdown


def _blocks(folder: Path, source: str) -> list[Block]:
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
def test_blocks(tmp_path: Path, source: str, expected: list[tuple[str, int | None, str]]) -> None:
    assert [(block.kind, block.level, block.text) for block in _blocks(tmp_path, source)] == expected


def test_a_table_has_cells_and_header(tmp_path: Path) -> None:
    cells = _blocks(tmp_path, "| 항목 | 금액 |\n|---|--:|\n| 서버 | **1,000** |")[0].cells

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
