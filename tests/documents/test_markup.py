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
        ("<ul>a<li>b</ul>", [("list", 1, "a"), ("list", 1, "• b")]),
        ("<pre>x\n  y</pre>", [("paragraph", None, "x\n  y")]),
        ("<p>a<img alt='막대'>b", [("paragraph", None, "ab"), ("figure", None, "막대")]),
        ("<script>x</script><style>y</style><p>z", [("paragraph", None, "z")]),
        ("<p hidden>a</p><p style='display: none'>b</p><p>c", [("paragraph", None, "c")]),
        ("<unheard-of>a</unheard-of>b", [("paragraph", None, "a"), ("paragraph", None, "b")]),
        ("<p>&amp; &#8361; &nbsp;㎡", [("paragraph", None, "& ₩ ㎡")]),
        ("<p>pay\u200bm\u200e\u2062ent\U000e0031\U000e007f", [("paragraph", None, "payment")]),
        ("<table><tr><td>a<table><tr><td>b<td>c</table></table>", [("paragraph", None, "a"), ("table", None, "b | c")]),
        (
            "<table>a<tr>b<td>1<td>2</tr>c</table>d",
            [("paragraph", None, "a b c"), ("table", None, "1 | 2"), ("paragraph", None, "d")],
        ),
        (
            "<p>x=<math><mfrac><mrow><mo>-</mo><mi>b</mi></mrow><mrow><mn>2</mn><mi>a</mi></mrow></mfrac><mo>+</mo>"
            "<msqrt><msup><mi>y</mi><mn>2</mn></msup></msqrt><mtable><mtr><mtd>1</mtd></mtr></mtable></math>.",
            [("paragraph", None, "x=(-b)/(2a)+√(y^2)[1].")],
        ),
        (
            "<input type=checkbox checked>a <input type=radio>b <input value=9> <select><option>x<option selected>y",
            [("paragraph", None, "☒ a ☐ b 9 y")],
        ),
    ],
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


@pytest.mark.parametrize(
    "label",
    [
        "<td style='padding-left: 16px'>b",
        "<td class=in>b",
        "<td><p style='margin-left: 12pt'>b</p>",
        "<td><span style='text-indent: 1em'>b</span>",
        "<td>&nbsp;&nbsp;&nbsp;&nbsp;b",
        "<td>\n\u3000b",
    ],
)
def test_a_label_is_set_in_by_its_style_or_by_hard_spaces(tmp_path: Path, label: str) -> None:
    style = "<style>td.in { padding-left: 16px }</style>"
    (table,) = _blocks(tmp_path, f"{style}<table><tr><td>a<td>1<tr>{label}<td>2</table>")
    assert [(cell.text, cell.indent) for cell in table.cells] == [("a", 0), ("1", 0), ("b", 4), ("2", 0)]


def test_a_header_names_columns_unless_it_stands_beside_values_or_alone_below_names(tmp_path: Path) -> None:
    rows = "<tr><th>a<th>b<tr><th colspan=2>c<tr><th>d<td>1<tr><th scope=row>e<th>f<tr><th colspan=2>(in %)"
    (table,) = _blocks(tmp_path, f"<table>{rows}</table>")
    assert [cell.text for cell in table.cells if cell.header] == ["a", "b", "f", "(in %)"]


def test_a_nested_table_is_text_of_its_cell(tmp_path: Path) -> None:
    source = "<table><tr><td>a<table><tr><td>b<td>c</table><td>d</table>"

    assert [cell.text for cell in _blocks(tmp_path, source)[0].cells] == ["a\nb | c", "d"]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("<tr><td rowspan=0>a<td>1<tr><td>2", ["a 0 0 2 1", "1 0 1 1 1", "2 1 1 1 1"]),
        ("<tbody><tr><td rowspan=9>a<td>1<tbody><tr><td>b<td>2", ["a 0 0 1 1", "1 0 1 1 1", "b 1 0 1 1", "2 1 1 1 1"]),
        ("<tbody hidden><tr><td>w<tbody><tr hidden><td>x<td>y<tr><td hidden>z<td>a<td>b", ["a 0 0 1 1", "b 0 1 1 1"]),
        ("<tfoot><tr><td>sum<td>3<tbody><tr><td>a<td>3", ["a 0 0 1 1", "3 0 1 1 1", "sum 1 0 1 1", "3 1 1 1 1"]),
        ("<tr><td colspan=99999999 rowspan=99999999>a<td>b", ["a 0 0 1 1000", "b 0 1000 1 1"]),
    ],
    ids=["to the end", "not out of its group", "hidden group, row and cell", "foot before body", "bomb"],
)
def test_rows_and_columns_are_those_of_a_browser(tmp_path: Path, rows: str, expected: list[str]) -> None:
    (table,) = _blocks(tmp_path, f"<table>{rows}</table>")

    assert [f"{c.text} {c.row} {c.col} {c.row_span} {c.col_span}" for c in table.cells] == expected


def test_cells_that_span_over_millions_of_places_are_all_there(tmp_path: Path) -> None:
    source = f"<table>{('<tr>' + '<td rowspan=1000 colspan=1000>1' * 30) * 30}</table>"

    cells = _blocks(tmp_path, source)[0].cells

    assert (len(cells), sum(c.row_span * c.col_span for c in cells) < 210_000) == (900, True)


SAME = "in the colour of its ground"
CUT = "<style>p{clip-path:inset(50% 50%)}div{transform:scaleX(0)}</style>"
WIDE = (
    "<style>p,b{display:none}@media (min-width: 768px){p{display:block}}@supports (a:b){div{display:none}}"
    "@media (max-width:9px){b{display:inline}}</style>"
)
SHEET = "<style>.no{display:none} .a .b{visibility:hidden} .dark{background:#036} @media print{p{display:none}}</style>"


@pytest.mark.parametrize(
    ("source", "shown", "hidden"),
    [
        ("<p style='DISPLAY : none'>a</p>b", "b", {"display: none": "a"}),
        ("<p style='visibility:hidden'>a<b style='visibility:visible'>b</b></p>", "b", {"visibility: hidden": "a"}),
        ("<p>on <del>1 April</del> <ins>3 April</ins> <s>x</s></p>", "on 3 April", {"deleted": "1 April x"}),
        ("<p hidden>a</p><template>b</template>c", "c", {"hidden element": "a", "<template>": "b"}),
        ("<noscript>a</noscript><dialog>b</dialog>c", "c", {"<noscript>": "a", "hidden element": "b"}),
        ("<p style='color:#fff'>a</p><font color=white>b</font>c", "c", {SAME: "a b"}),
        ("<p style='color:rgb(0, 0, 0);background:black'>a</p>b", "b", {SAME: "a"}),
        ("<table bgcolor=navy><tr><td style='color:white'>a<td>b</table>", "a | b", {}),
        ("<link rel=stylesheet href=x.css><p style='color:white'>a</p>", "a", {}),
        ("<p style='font-size:0'>a<b style='font-size:9pt'>b</b></p>", "b", {"letters of a point or less": "a"}),
        ("<p style='font-size:0'><b style='font-size:2em'>a</b></p>b", "b", {"letters of a point or less": "a"}),
        ("<p style='opacity:0'>a</p>b", "b", {"opacity: 0": "a"}),
        ("<p style='position:absolute;left:-9999px'>a</p>b", "b", {"off the page": "a"}),
        ("<p style='max-height:0;overflow:hidden'>a</p>b", "b", {"a box without size": "a"}),
        ("<p style='background:transparent url(dark.jpg);color:#fff'>a", "a", {}),
        ("<p style='background-image:url(dark.jpg);color:#fff'>a", "a", {}),
        ("<p style='margin-left:-9999px;padding-left:9999px'>a", "a", {}),
        ("<p style='position:absolute;left:0;right:-9999px'>a", "a", {}),
        ("<p style='clip:rect(0,0,0,0)'>a<p style='width:5%;overflow:hidden'>b", "a\nb", {}),
        ("<p style='color:transparent;background-clip:text'>a", "a", {}),
        ("<style media=print>p{display:none}</style><p>a", "a", {}),
        (SHEET + "<p class='x no'>a</p><p>b</p>", "b", {"display: none": "a"}),
        ("<style>div>p.a{display:none}</style><div><p class=a>a</p><section><p class=a>b", "b", {"display: none": "a"}),
        ("<style>[lang='ko']{display:none}</style><p lang=ko>a<p lang=en>b", "b", {"display: none": "a"}),
        ("<style>@media screen{p{display:none}}</style><p>a</p>b", "b", {"display: none": "a"}),
        (WIDE + "<p>a</p><div>b</div><b>c", "a", {"display: none": "b c"}),
        ("<p style='position:absolute;clip:rect(0 0 0 0)'>a</p>b", "b", {"nothing of it is left": "a"}),
        ("<p style='transform:scale(0)'>a</p><p style='transform:scale(.5)'>b", "b", {"nothing of it is left": "a"}),
        ("<p style='font:0/0 serif'>a</p>b", "b", {"letters of a point or less": "a"}),
        ("<p style='height:0;overflow-y:hidden'>a</p>b", "b", {"a box without size": "a"}),
        (
            "<p style='color:rgba(9,9,9,0)'>a</p><p style='background:rgba(0,0,0,0)'>b",
            "b",
            {"letters without ink": "a"},
        ),
        ("<style>p{display:none !important}</style><p style='display:block'>a</p>b", "b", {"display: none": "a"}),
        (CUT + "<p>a</p><div>b</div>c", "c", {"nothing of it is left": "a b"}),
        ("<style>:root{--no:none}p{display:var(--no)}</style><p>a</p>b", "b", {"display: none": "a"}),
        ("<style>html{--no:none}p{display:var(--no)}.x{--no:block}</style><p>a", "a", {}),
        ("<style>.x{--ink:#fff}p{color:var(--ink)}</style><p>a", "a", {}),
        ("<style>body{--no:none}p{display:var(--no)}</style><p style='--no:block'>a", "a", {}),
        (SHEET + "<div class=a><i class=b>a</i></div><i class=b>b</i>", "b", {"visibility: hidden": "a"}),
        (SHEET + "<div class=dark><p style='color:white'>a</div>", "a", {}),
        ("<details><summary>a</summary>b</details><p aria-hidden=true>c", "a\nb\nc", {}),
        ("<p>a <i style='text-decoration:line-through'>7</i> 6</p>", "a 6", {"deleted": "7"}),
        (
            "<p style='transform:translateX(-5000px)'>a</p><p style='margin-top:-99em'>b</p>c",
            "c",
            {"off the page": "a b"},
        ),
        ("<p style='-webkit-text-fill-color:transparent'>a</p>b", "b", {"letters without ink": "a"}),
        ("<math><mi>x</mi><annotation>a</annotation></math>", "x", {"<annotation>": "a"}),
        ("<pre>a <del>b</del>\n  c</pre>", "a \n  c", {"deleted": "b"}),
        ("<table><tr><td>a<td style='display:none'>b<td>c</table>", "a | c", {"display: none": "b"}),
    ],
)
def test_what_browsers_do_not_show_is_hidden(tmp_path: Path, source: str, shown: str, hidden: dict[str, str]) -> None:
    (page,) = _open(tmp_path, source.encode()).pages()

    assert "\n".join(block.text for block in page.blocks) == shown
    found: dict[str, list[str]] = {}
    for entry in page.hidden:
        found.setdefault(entry.reason, []).append(entry.text)
    assert {reason: " ".join(texts) for reason, texts in found.items()} == hidden


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
        ("a `b` [c](http://x) <b>d</b>", [("paragraph", None, "a b c d")]),
        ("~~a~~ <del>b</del><!-- c --> <name> 5 < 6", [("paragraph", None, "<name> 5 < 6")]),
        ("<div style='display:none'>\n\n**a**\n\n</div>\n\nb", [("paragraph", None, "b")]),
        ("2) a", [("list", 1, "2) a")]),
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


def test_front_matter_gives_the_title(tmp_path: Path) -> None:
    path = tmp_path / "sample.md"
    path.write_text('---\ntitle: "제안서"\nauthor: 김\n---\n# 장\n')

    header = open_markdown(path, password=None, options=ReadOptions()).header

    assert header.title == "제안서"
