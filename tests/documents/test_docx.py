"""Word documents, built part by part: what a person sees on paper is what the reader gives, in that order."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from tasks.documents.blocks import Block, Document, PageStatus
from tasks.documents.document_errors import RefusedDocument
from tasks.documents.document_readers import ReadOptions
from tasks.documents.docx.docx_reader import open_docx
from tasks.documents.docx.docx_styles import format_number
from tests.documents.zips import zipped

NAMESPACES = {
    "w": "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "r": "http://schemas.openxmlformats.org/officeDocument/2006/relationships",
    "m": "http://schemas.openxmlformats.org/officeDocument/2006/math",
    "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
    "wp": "http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing",
    "a": "http://schemas.openxmlformats.org/drawingml/2006/main",
    "pic": "http://schemas.openxmlformats.org/drawingml/2006/picture",
    "c": "http://schemas.openxmlformats.org/drawingml/2006/chart",
    "wps": "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
    "v": "urn:schemas-microsoft-com:vml",
}
DECLARED = " ".join(f'xmlns:{prefix}="{uri}"' for prefix, uri in NAMESPACES.items())
RELATIONSHIPS = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def _build(folder: Path, body: str, *, parts: dict[str, str] | None = None, related: tuple[str, ...] = ()) -> Path:
    """A document with a body; `parts` are further XML parts, `related` lines `id type target [External]`."""
    rows = [line.split() for line in related]
    links = "".join(
        f'<Relationship Id="{row[0]}" Type="{OFFICE}/{row[1]}" Target="{row[2]}"'
        + (' TargetMode="External"/>' if row[3:] else "/>")
        for row in rows
    )
    members = {name: xml.replace("<w:root", f"<w:root {DECLARED}") for name, xml in (parts or {}).items()}
    members["word/document.xml"] = f"<w:document {DECLARED}><w:body>{body}</w:body></w:document>"
    members["word/_rels/document.xml.rels"] = f'<Relationships xmlns="{RELATIONSHIPS}">{links}</Relationships>'
    path = folder / "built.docx"
    path.write_bytes(zipped(members))
    return path


def _read(path: Path) -> Document:
    reader = open_docx(path, password=None, options=ReadOptions())
    header = reader.header
    pages = tuple(reader.pages())
    assert header.page_count == len(pages)
    return Document(**header.model_dump(exclude={"page_count"}), pages=pages)


def _blocks(path: Path) -> list[Block]:
    return [block for page in _read(path).pages for block in page.blocks]


def _texts(path: Path) -> list[str]:
    return [block.text for block in _blocks(path)]


def _p(text: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def _cell(text: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{_p(text)}</w:tc>"


def _row(*cells: str, properties: str = "") -> str:
    return f"<w:tr><w:trPr>{properties}</w:trPr>{''.join(cells)}</w:tr>"


def test_paragraphs_and_tables_come_in_order(tmp_path: Path) -> None:
    table = f"<w:tbl>{_row(_cell('항목'), _cell('금액'))}{_row(_cell('서버'), _cell('1,000'))}</w:tbl>"

    blocks = _blocks(_build(tmp_path, _p("앞") + table + _p("뒤")))

    assert [(block.kind, block.text) for block in blocks] == [
        ("paragraph", "앞"),
        ("table", "항목 | 금액\n서버 | 1,000"),
        ("paragraph", "뒤"),
    ]


def test_merged_cells_stand_once_with_their_spans(tmp_path: Path) -> None:
    rows = (
        _row(_cell("가", "<w:vMerge w:val='restart'/>"), _cell("나", "<w:gridSpan w:val='2'/>"))
        + _row(_cell("", "<w:vMerge/>"), _cell("다"), _cell("라"))
        + _row(_cell("마"), _cell("바"), _cell("사"), properties="<w:tblHeader/>")
    )

    cells = _blocks(_build(tmp_path, f"<w:tbl>{rows}</w:tbl>"))[0].cells

    assert [(c.row, c.col, c.text, c.row_span, c.col_span, c.header) for c in cells] == [
        (0, 0, "가", 2, 1, False),
        (0, 1, "나", 1, 2, False),
        (1, 1, "다", 1, 1, False),
        (1, 2, "라", 1, 1, False),
        (2, 0, "마", 1, 1, True),
        (2, 1, "바", 1, 1, True),
        (2, 2, "사", 1, 1, True),
    ]


def test_a_label_is_set_in_by_its_paragraph_or_by_spaces(tmp_path: Path) -> None:
    indents = ["", '<w:ind w:left="480" w:hanging="240"/>', '<w:ind w:firstLine="240"/>']
    labels = [f"<w:tc>{_p('가', indent)}</w:tc>" for indent in indents] + [_cell("\u3000\u3000나")]
    (table,) = _blocks(_build(tmp_path, f"<w:tbl>{''.join(_row(label, _cell('1')) for label in labels)}</w:tbl>"))
    assert [cell.indent for cell in table.cells if not cell.col] == [0, 4, 4, 2]


def test_a_box_of_one_cell_is_the_text_in_it(tmp_path: Path) -> None:
    inner = f"<w:tbl>{_row(_cell('안'), _cell('쪽'))}</w:tbl>"
    cell = f"<w:tc>{_item('가', 0)}{inner}<w:p/></w:tc>"
    body = f"<w:tbl>{_row(cell)}</w:tbl>"

    blocks = _blocks(_styled(tmp_path, body))

    assert [(block.kind, block.text) for block in blocks] == [("list", "I. 가"), ("table", "안 | 쪽")]


STYLES = """<w:root>
<w:style w:type="paragraph" w:default="1" w:styleId="Normal"><w:name w:val="Normal"/></w:style>
<w:style w:type="paragraph" w:styleId="a3"><w:name w:val="heading 1"/></w:style>
<w:style w:type="paragraph" w:styleId="mine"><w:name w:val="Chapter"/><w:basedOn w:val="a3"/></w:style>
<w:style w:type="paragraph" w:styleId="T"><w:name w:val="Title"/></w:style>
<w:style w:type="paragraph" w:styleId="C"><w:name w:val="caption"/></w:style>
<w:style w:type="paragraph" w:styleId="N"><w:name w:val="heading 2"/>
  <w:pPr><w:numPr><w:ilvl w:val="1"/><w:numId w:val="1"/></w:numPr></w:pPr></w:style>
</w:root>"""
LEVELS = """
<w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="upperRoman"/><w:lvlText w:val="%1."/></w:lvl>
<w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:isLgl/><w:lvlText w:val="%1.%2"/></w:lvl>
<w:lvl w:ilvl="2"><w:start w:val="1"/><w:numFmt w:val="bullet"/><w:lvlText w:val="&#xF0B7;"/></w:lvl>
<w:lvl w:ilvl="3"><w:start w:val="1"/><w:numFmt w:val="ganada"/><w:lvlText w:val="%4)"/></w:lvl>"""
NUMBERING = f"""<w:root>
<w:abstractNum w:abstractNumId="7">{LEVELS}</w:abstractNum>
<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>
<w:num w:numId="2"><w:abstractNumId w:val="7"/>
  <w:lvlOverride w:ilvl="0"><w:startOverride w:val="5"/></w:lvlOverride></w:num>
</w:root>"""
STYLED = {"word/styles.xml": STYLES, "word/numbering.xml": NUMBERING}
STYLED_LINKS = ("s styles styles.xml", "n numbering numbering.xml")


def _styled(folder: Path, body: str) -> Path:
    return _build(folder, body, parts=STYLED, related=STYLED_LINKS)


def _item(text: str, level: int, list_id: int = 1) -> str:
    return _p(text, f"<w:numPr><w:ilvl w:val='{level}'/><w:numId w:val='{list_id}'/></w:numPr>")


@pytest.mark.parametrize(
    ("properties", "kind", "level"),
    [
        ("<w:pStyle w:val='a3'/>", "heading", 1),
        ("<w:pStyle w:val='mine'/>", "heading", 1),
        ("<w:outlineLvl w:val='2'/>", "heading", 3),
        ("<w:pStyle w:val='a3'/><w:outlineLvl w:val='9'/>", "paragraph", None),
        ("<w:pStyle w:val='T'/>", "heading", 1),
        ("<w:pStyle w:val='C'/>", "caption", None),
    ],
    ids=["style", "based on a heading", "outline level", "body text by outline level", "title", "caption"],
)
def test_style_and_outline_say_what_a_paragraph_is(
    tmp_path: Path, properties: str, kind: str, level: int | None
) -> None:
    block = _blocks(_styled(tmp_path, _p("글", properties)))[0]

    assert (block.kind, block.level) == (kind, level)


def test_numbers_and_bullets_are_written_out(tmp_path: Path) -> None:
    body = _item("a", 0) + _item("b", 1) + _item("c", 2) + _item("d", 1) + _item("e", 0) + _item("f", 1)

    assert _texts(_styled(tmp_path, body)) == ["I. a", "1.1 b", "• c", "1.2 d", "II. e", "2.1 f"]


@pytest.mark.parametrize(
    ("text", "indent", "kind", "marker"),
    [
        ("○ 대상", "w:left='400' w:hanging='400'", "list", "○"),
        ("가. 대상", "w:left='400' w:firstLine='-400'", "list", "가."),
        ("- 대상", "w:left='400'", "paragraph", None),
        ("대상", "w:left='400' w:hanging='400'", "paragraph", None),
    ],
    ids=["bullet", "number", "does not hang", "no mark"],
)
def test_a_typed_mark_before_hanging_lines_makes_an_item(
    tmp_path: Path, text: str, indent: str, kind: str, marker: str | None
) -> None:
    (block,) = _blocks(_build(tmp_path, _p(text, f"<w:ind {indent}/>")))

    assert (block.kind, block.marker, block.text) == (kind, marker, text)


def test_a_numbered_heading_bears_its_number(tmp_path: Path) -> None:
    blocks = _blocks(_styled(tmp_path, _item("장", 0) + _p("절", "<w:pStyle w:val='N'/>") + _p("글")))

    assert (blocks[1].kind, blocks[1].text) == ("heading", "1.1 절")
    assert blocks[2].place.heading_path == ("1.1 절",)


@pytest.mark.parametrize(
    ("number", "format", "expected"),
    [
        (14, "ganada", "하"),
        (27, "lowerLetter", "aa"),
        (1994, "upperRoman", "MCMXCIV"),
        (999_999_999, "upperRoman", "999999999"),
        (999_999_999, "lowerLetter", "999999999"),
        (11, "koreanCounting", "십일"),
        (3, "decimalEnclosedCircle", "③"),
        (22, "ordinal", "22nd"),
        (5, "what Word may add", "5"),
    ],
)
def test_number_formats(number: int, format: str, expected: str) -> None:
    assert format_number(number, format) == expected


def test_a_text_box_comes_once_after_its_anchor(tmp_path: Path) -> None:
    box = f"<w:txbxContent>{_p('상자')}</w:txbxContent>"
    drawing = f"<w:drawing><wp:anchor><wps:wsp><wps:txbx>{box}</wps:txbx></wps:wsp></wp:anchor></w:drawing>"
    copies = (
        f"<mc:AlternateContent><mc:Choice>{drawing}</mc:Choice>"
        f"<mc:Fallback><w:pict><v:textbox>{box}</v:textbox></w:pict></mc:Fallback></mc:AlternateContent>"
    )
    body = f"<w:p><w:r><w:t>닻</w:t></w:r><w:r>{copies}</w:r></w:p>" + _p("뒤")

    assert _texts(_build(tmp_path, body)) == ["닻", "상자", "뒤"]


def test_notes_then_headers_come_last_and_once(tmp_path: Path) -> None:
    body = (
        "<w:p><w:r><w:t>본문</w:t><w:footnoteReference w:id='2'/><w:endnoteReference w:id='1'/>"
        "<w:commentReference w:id='0'/></w:r></w:p>"
        "<w:p><w:pPr><w:sectPr><w:headerReference r:id='h'/><w:footerReference r:id='t'/></w:sectPr></w:pPr></w:p>"
        "<w:sectPr><w:headerReference r:id='h'/></w:sectPr>"
    )
    parts = {
        "word/footnotes.xml": f"<w:root><w:footnote w:id='0' w:type='separator'>{_p('선')}</w:footnote>"
        f"<w:footnote w:id='2'>{_p('각주')}</w:footnote></w:root>",
        "word/endnotes.xml": f"<w:root><w:endnote w:id='1'>{_p('미주')}</w:endnote></w:root>",
        "word/comments.xml": f"<w:root><w:comment w:id='0'>{_p('메모')}</w:comment></w:root>",
        "word/header1.xml": f"<w:root>{_p('머리말')}</w:root>",
        "word/footer1.xml": f"<w:root>{_p('꼬리말')}</w:root>",
    }
    related = (
        "f footnotes footnotes.xml",
        "e endnotes endnotes.xml",
        "c comments comments.xml",
        "h header header1.xml",
        "t footer footer1.xml",
    )

    blocks = _blocks(_build(tmp_path, body, parts=parts, related=related))

    assert [(block.kind, block.text) for block in blocks] == [
        ("paragraph", "본문¹ⁱ"),
        ("note", "¹ 각주"),
        ("note", "ⁱ 미주"),
        ("note", "메모"),
        ("header", "머리말"),
        ("footer", "꼬리말"),
    ]


RENDERED = "<w:lastRenderedPageBreak/>"
ASKED = "<w:br w:type='page'/>"


def test_a_break_that_was_asked_for_and_rendered_is_one(tmp_path: Path) -> None:
    body = (
        f"<w:p><w:r><w:t>하나</w:t>{ASKED}</w:r></w:p><w:p><w:r>{RENDERED}<w:t>둘</w:t></w:r></w:p>"
        + _p("셋", "<w:pageBreakBefore/>")
        + f"<w:p><w:r><w:t>셋 끝</w:t>{ASKED}{ASKED}<w:t>다섯</w:t></w:r></w:p>"
    )

    document = _read(_build(tmp_path, body))

    pages, source = document.pages, document.page_source
    texts = [[block.text for block in page.blocks] for page in pages]
    assert (source, texts) == ("stored", [["하나"], ["둘"], ["셋", "셋 끝"], [], ["다섯"]])
    assert (pages[3].status, pages[3].reason) == (PageStatus.EMPTY, "blank page")


def test_without_a_rendered_break_no_page_is_guessed(tmp_path: Path) -> None:
    document = _read(_build(tmp_path, f"<w:p><w:r><w:t>하나</w:t>{ASKED}<w:t>둘</w:t></w:r></w:p>"))

    assert (document.page_source, [page.number for page in document.pages]) == ("none", [None])
    assert [block.page for block in document.pages[0].blocks] == [None, None]


def test_a_table_over_two_pages_is_a_table_on_each(tmp_path: Path) -> None:
    late = f"<w:tc><w:p><w:r>{RENDERED}<w:t>둘째</w:t></w:r></w:p></w:tc>"
    later = f"<w:tc><w:p><w:r>{RENDERED}<w:t>쪽</w:t></w:r></w:p></w:tc>"
    rows = _row(_cell("첫째"), _cell("쪽")) + f"<w:tr>{late}{later}</w:tr>" + _row(_cell("끝"), _cell("줄"))

    blocks = _blocks(_build(tmp_path, f"<w:tbl>{rows}</w:tbl>"))

    assert [(block.page, block.text) for block in blocks] == [(1, "첫째 | 쪽"), (2, "둘째 | 쪽\n끝 | 줄")]
    assert [cell.row for cell in blocks[1].cells] == [0, 0, 1, 1]


def _picture(attributes: str, alt: str = "막대 그래프") -> str:
    return (
        f"<w:p><w:r><w:drawing><wp:inline><wp:docPr descr='{alt}'/><a:graphic><pic:pic><pic:blipFill>"
        f"<a:blip {attributes}/></pic:blipFill></pic:pic></a:graphic></wp:inline></w:drawing></w:r></w:p>"
    )


def test_a_picture_is_a_figure_with_its_alternative_text_and_not_fetched(tmp_path: Path) -> None:
    document = _read(_build(tmp_path, _picture("r:link='i'"), related=("i image http://127.0.0.1:9/x.png External",)))

    assert [(block.kind, block.text) for block in document.pages[0].blocks] == [("figure", "막대 그래프")]
    assert document.notes == ("Images that lie outside the document were not fetched: 1.",)


def test_a_chart_gives_its_numbers(tmp_path: Path) -> None:
    body = "<w:p><w:r><w:drawing><wp:inline><c:chart r:id='k'/></wp:inline></w:drawing></w:r></w:p>"
    points = "<c:pt idx='{}'><c:v>{}</c:v></c:pt>"
    years, values = (
        "".join(points.format(index, value) for index, value in enumerate(column))
        for column in (("2023", "2024"), ("1.5", "2.5"))
    )
    chart = (
        f"<c:chartSpace {DECLARED}><c:title><a:p><a:r><a:t>매출</a:t></a:r></a:p></c:title><c:ser><c:tx><c:pt idx='0'>"
        f"<c:v>억원</c:v></c:pt></c:tx><c:cat>{years}</c:cat><c:val>{values}</c:val></c:ser></c:chartSpace>"
    )

    blocks = _blocks(_build(tmp_path, body, parts={"word/chart.xml": chart}, related=("k chart chart.xml",)))

    assert (blocks[0].kind, blocks[0].text) == ("figure", "매출\n | 억원\n2023 | 1.5\n2024 | 2.5")


@pytest.mark.parametrize(
    ("equation", "expected"),
    [
        ("<m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>", "(a+b)/2"),
        ("<m:sSup><m:e><m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>10</m:t></m:r></m:sup></m:sSup>", "x^10"),
        ("<m:rad><m:deg/><m:e><m:r><m:t>y</m:t></m:r></m:e></m:rad>", "√(y)"),
        (
            "<m:nary><m:naryPr><m:chr m:val='∑'/></m:naryPr><m:sub><m:r><m:t>i=1</m:t></m:r></m:sub>"
            "<m:sup><m:r><m:t>n</m:t></m:r></m:sup><m:e><m:r><m:t>i</m:t></m:r></m:e></m:nary>",
            "∑_(i=1)^n i",
        ),
    ],
    ids=["fraction", "power", "root", "sum"],
)
def test_equations_are_a_line_of_text(tmp_path: Path, equation: str, expected: str) -> None:
    assert _texts(_build(tmp_path, f"<w:p><m:oMath>{equation}</m:oMath></w:p>")) == [expected]


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        ("<w:checkBox><w:default w:val='0'/><w:checked/></w:checkBox>", "☒"),
        ("<w:checkBox><w:default w:val='0'/></w:checkBox>", "☐"),
        ("<w:ddList><w:result w:val='1'/><w:listEntry w:val='서울'/><w:listEntry w:val='부산'/></w:ddList>", "부산"),
        ("<w:ddList><w:result w:val='99'/><w:listEntry w:val='서울'/></w:ddList>", ""),
    ],
    ids=["ticked", "not ticked", "chosen", "out of the list"],
)
def test_a_field_of_a_form_shows_its_value(tmp_path: Path, field: str, shown: str) -> None:
    begin = f"<w:r><w:fldChar w:fldCharType='begin'><w:ffData>{field}</w:ffData></w:fldChar></w:r>"

    assert _texts(_build(tmp_path, f"<w:p><w:r><w:t>a:</w:t></w:r>{begin}</w:p>")) == [f"a:{shown}"]


def _run(text: str, look: str) -> str:
    return f"<w:r><w:rPr>{look}</w:rPr><w:t>{text}</w:t></w:r>"


WHITE, DARK = "<w:color w:val='FFFFFF'/>", "<w:shd w:val='clear' w:fill='003366'/>"
DARK_INK = "<w:color w:val='003366'/>"
SMALL, UNSEEN = "<w:sz w:val='1'/>", "<w:rStyle w:val='Unseen'/>"
SHADED_CELL = f"<w:tc><w:tcPr>{DARK}</w:tcPr><w:p>{_run('head', WHITE)}</w:p></w:tc>"


@pytest.mark.parametrize(
    ("body", "shown", "hidden"),
    [
        (f"<w:p>{_run('보임', '')}{_run('숨', '<w:vanish/>')}{_run('음', '<w:vanish/>')}</w:p>", "보임", "숨음"),
        (f"<w:p>{_run('1 USD', SMALL)}{_run('485 USD', '')}</w:p>", "485 USD", "1 USD"),
        (f"<w:p>{_run('in a style', UNSEEN)}</w:p>", "", "in a style"),
        ("<w:p>" + _run("a line", "<w:w w:val='1'/>") + "</w:p>" + _p("글"), "글", "a line"),
        (_p("cut", "<w:spacing w:line='1' w:lineRule='exact'/>") + _p("글"), "글", "cut"),
        (f"<w:p>{_run('no ground', WHITE)}{_run('on a highlight', WHITE + DARK)}</w:p>", "on a highlight", "no ground"),
        (f"<w:p><w:pPr>{DARK}</w:pPr>{_run('banner', WHITE)}</w:p>", "banner", ""),
        (f"<w:p><w:pPr>{DARK}</w:pPr>{_run('navy', DARK_INK)}{_run('plain', '')}</w:p>", "plain", "navy"),
        (f"<w:p><w:pPr><w:pStyle w:val='Banner'/></w:pPr>{_run('banner', '')}</w:p>", "banner", ""),
        (f"<w:tbl>{_row(_cell('a') + SHADED_CELL)}</w:tbl>", "a | head", ""),
        (
            f"<w:tbl>{_row(_cell('지운 줄'), properties='<w:del/>')}{_row(_cell('남은 줄'))}</w:tbl>",
            "남은 줄",
            "지운 줄",
        ),
        (
            f"<w:tbl>{_row(_cell('a') + '<w:tc><w:tcPr><w:cellDel/></w:tcPr>' + _p('b') + '</w:tc>')}</w:tbl>",
            "a | ",
            "b",
        ),
        ("<w:p><w:moveFrom><w:r><w:t>옛</w:t></w:r></w:moveFrom></w:p>" + _p("글"), "글", "옛"),
        (f"<w:p><w:pict style='visibility:hidden'>{_p('off')}</w:pict></w:p>{_p('글')}", "글", "off"),
        (
            "<w:p><w:del><w:r><w:delText>100</w:delText></w:r></w:del><w:ins><w:r><w:t>200</w:t></w:r></w:ins></w:p>",
            "200",
            "100",
        ),
    ],
)
def test_what_word_does_not_show_is_kept_as_hidden(tmp_path: Path, body: str, shown: str, hidden: str) -> None:
    styles = (
        "<w:style w:type='character' w:styleId='Unseen'><w:rPr><w:vanish/></w:rPr></w:style>"
        f"<w:style w:type='paragraph' w:styleId='Banner'><w:pPr>{DARK}</w:pPr><w:rPr>{WHITE}</w:rPr></w:style>"
    )

    parts = {"word/styles.xml": f"<w:root>{styles}</w:root>"}

    (page,) = _read(_build(tmp_path, body, parts=parts, related=("s styles styles.xml",))).pages

    assert "\n".join(block.text for block in page.blocks) == shown
    assert "\n".join(entry.text for entry in page.hidden) == hidden


def test_the_strict_variant_reads_like_the_usual_one(tmp_path: Path) -> None:
    path = _build(tmp_path, _p("글"))
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            strict = re.sub(
                rb"http://schemas.openxmlformats.org/(wordprocessingml|officeDocument)/2006/",
                rb"http://purl.oclc.org/ooxml/\1/",
                data,
            )
            archive.writestr(name, strict)

    assert _texts(path) == ["글"]


def test_elements_nested_without_end_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedDocument, match="nests"):
        _read(_build(tmp_path, f"<w:p>{'<w:ins>' * 5_000}{'</w:ins>' * 5_000}</w:p>"))


OFFICE_SAMPLES = (
    "Strict",
    "docx_external_image",
    "docx_grouped_images",
    "docx_lists",
    "docx_page_header_footer_first_page",
    "docx_rich_cells",
    "lorem_ipsum",
    "tablecell",
    "textbox",
    "unit_test_headers_numbered",
    "word_sample",
    "word_tables",
)
MARKUP = re.compile(r"<!--.*?-->|[*~\\|`#]|^\s*[-\d.]+ ", re.MULTILINE)


@pytest.mark.shared
@pytest.mark.parametrize("name", OFFICE_SAMPLES)
def test_every_word_that_docling_finds_is_found(shared: Path, name: str) -> None:
    folder = shared / "documents" / "office"
    markdown = MARKUP.sub(" ", (folder / f"{name}.docx.md").read_text()).replace("_", " ")
    ours = "".join("".join(_texts(folder / f"{name}.docx")).split())

    assert [word for word in re.findall(r"\w+", markdown) if word not in ours] == []
