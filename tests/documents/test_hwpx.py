"""HWPX: small packages made here, so that every construct stands in sight."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.documents.blocks import Block, Cell, PageStatus
from tasks.documents.document_errors import CorruptDocument, RefusedDocument
from tasks.documents.document_readers import ReadOptions
from tasks.documents.hwp.hwp_reader import open_hwpx
from tests.documents.zips import zipped

HP = 'xmlns:hp="http://www.hancom.co.kr/hwpml/2011/paragraph" xmlns:hs="http://www.hancom.co.kr/hwpml/2011/section"'
HPF = """<opf:package xmlns:opf="http://www.idpf.org/2007/opf/"><opf:metadata><opf:title>제목</opf:title>
<opf:meta name="creator">저자</opf:meta></opf:metadata><opf:manifest><opf:item id="header" href="Contents/header.xml"/>
<opf:item id="b" href="Contents/section1.xml"/><opf:item id="a" href="Contents/section0.xml"/>
<opf:item id="m" href="Contents/masterpage0.xml"/></opf:manifest>
<opf:spine><opf:itemref idref="header"/><opf:itemref idref="b"/><opf:itemref idref="a"/></opf:spine></opf:package>"""


def section(*content: str) -> str:
    return f"<hs:sec {HP}>{''.join(content)}</hs:sec>"


def p(*runs: str, shape: int = 0) -> str:
    return f'<hp:p paraPrIDRef="{shape}"><hp:run>{"".join(runs)}</hp:run></hp:p>'


def t(text: str) -> str:
    return f"<hp:t>{text}</hp:t>"


def tc(text: str, row: int, col: int, rows: int = 1, cols: int = 1, *, header: int = 0) -> str:
    return (
        f'<hp:tc header="{header}"><hp:subList>{p(t(text))}</hp:subList>'
        f'<hp:cellAddr rowAddr="{row}" colAddr="{col}"/><hp:cellSpan rowSpan="{rows}" colSpan="{cols}"/></hp:tc>'
    )


def package(folder: Path, members: dict[str, str | bytes]) -> Path:
    path = folder / "sample.hwpx"
    path.write_bytes(zipped(members))
    return path


def read(path: Path) -> list[Block]:
    reader = open_hwpx(path, password=None, options=ReadOptions())
    return [block for page in reader.pages() for block in page.blocks]


def said(folder: Path, *content: str) -> list[tuple[str, str]]:
    made = read(package(folder, {"Contents/section0.xml": section(*content)}))
    return [(block.kind, block.text) for block in made]


def test_sections_come_in_the_order_of_the_spine(tmp_path: Path) -> None:
    members: dict[str, str | bytes] = {
        "Contents/content.hpf": HPF,
        "Contents/section0.xml": section(p(t("둘째"))),
        "Contents/section1.xml": section(p(t("첫째"))),
        "Contents/section2.xml": section(p(t("잊힌 것"))),
    }
    reader = open_hwpx(package(tmp_path, members), password=None, options=ReadOptions())
    (page,) = reader.pages()
    assert [(block.text, block.place.section) for block in page.blocks] == [("첫째", 0), ("둘째", 1), ("잊힌 것", 2)]
    assert reader.header.title == "제목"
    assert any("section2" in note for note in reader.header.notes)


def test_a_document_without_text_says_so(tmp_path: Path) -> None:
    path = package(tmp_path, {"Contents/section0.xml": section(p("<hp:pic/>"))})
    (page,) = open_hwpx(path, password=None, options=ReadOptions()).pages()
    assert page.status is PageStatus.EMPTY
    assert str(page.reason).startswith("image-only")


def test_elements_inside_text_are_spaces_and_marks(tmp_path: Path) -> None:
    text = t("가<hp:tab/>나<hp:lineBreak/>다<hp:nbSpace/>라<hp:markpenBegin/>마<hp:hyphen/>바")
    assert said(tmp_path, p(text)) == [("paragraph", "가\t나\n다\u00a0라마-바")]


def test_merged_cells_stand_once_with_their_spans(tmp_path: Path) -> None:
    rows = (tc("가", 0, 0, rows=2, header=1), tc("나", 0, 1, header=1)), (tc("다", 1, 1),)
    tbl = "<hp:tbl>" + "".join(f"<hp:tr>{''.join(row)}</hp:tr>" for row in rows) + "</hp:tbl>"
    (block,) = read(package(tmp_path, {"Contents/section0.xml": section(p(tbl))}))
    assert block.text == "가 | 나\n다"
    assert block.cells == (
        Cell(row=0, col=0, text="가", row_span=2, header=True),
        Cell(row=0, col=1, text="나", header=True),
        Cell(row=1, col=1, text="다"),
    )


@pytest.mark.parametrize("side", ["TOP", "BOTTOM"])
def test_a_caption_stands_beside_its_object(side: str, tmp_path: Path) -> None:
    number = (
        '<hp:ctrl><hp:autoNum num="3" numType="TABLE"><hp:autoNumFormat type="ROMAN_CAPITAL"/></hp:autoNum></hp:ctrl>'
    )
    caption = f'<hp:caption side="{side}"><hp:subList>{p(t("표 "), number)}</hp:subList></hp:caption>'
    tbl = f"<hp:tbl>{caption}<hp:tr>{tc('값', 0, 0)}</hp:tr></hp:tbl>"
    expected = [("caption", "표 III"), ("table", "값")]
    assert said(tmp_path, p(tbl)) == (expected if side == "TOP" else expected[::-1])


def test_text_boxes_stand_at_their_anchor_and_asides_last(tmp_path: Path) -> None:
    box = f"<hp:rect><hp:drawText><hp:subList>{p(t('글상자'))}</hp:subList></hp:drawText></hp:rect>"
    asides = "".join(
        f"<hp:ctrl><hp:{name}><hp:subList>{p(t(text))}</hp:subList></hp:{name}></hp:ctrl>"
        for name, text in (("footer", "꼬리"), ("header", "머리"), ("footNote", "각주"), ("hiddenComment", "숨은 설명"))
    )
    assert said(tmp_path, p(box), p(asides, t("본문"))) == [
        ("paragraph", "글상자"),
        ("paragraph", "본문"),
        ("note", "각주"),
        ("header", "머리"),
        ("footer", "꼬리"),
    ]


def test_words_of_odd_objects_are_kept(tmp_path: Path) -> None:
    runs = (
        "<hp:equation><hp:script>a over b</hp:script></hp:equation>",
        '<hp:compose composeText="10"/>',
        "<hp:dutmal><hp:mainText>漢字</hp:mainText><hp:subText>한자</hp:subText></hp:dutmal>",
        '<hp:checkBtn caption="동의함" value="CHECKED"/><hp:radioBtn caption="유" value="UNCHECKED"/>',
        "<hp:ctrl><hp:pageNum/></hp:ctrl>",
    )
    assert said(tmp_path, p(*runs)) == [("paragraph", "a over b10漢字(한자)☒ 동의함☐ 유")]


def test_unknown_elements_do_not_swallow_their_paragraphs(tmp_path: Path) -> None:
    odd = f"<hp:ctrl><hp:ofTomorrow><hp:subList>{p(t('새 것'))}</hp:subList></hp:ofTomorrow></hp:ctrl>"
    assert said(tmp_path, p(odd, t("본문"))) == [("paragraph", "본문"), ("note", "새 것")]


def test_master_pages_count_as_headers(tmp_path: Path) -> None:
    members: dict[str, str | bytes] = {
        "Contents/content.hpf": HPF,
        "Contents/masterpage0.xml": f"<masterPage {HP}><hp:subList>{p(t('바탕쪽'))}</hp:subList></masterPage>",
        "Contents/section0.xml": section(p('<hp:secPr><hp:masterPage idRef="m"/></hp:secPr>', t("본문"))),
    }
    assert [(block.kind, block.text) for block in read(package(tmp_path, members))] == [
        ("paragraph", "본문"),
        ("header", "바탕쪽"),
    ]


def test_bottomless_tables_end_in_a_typed_error(tmp_path: Path) -> None:
    nested = p(t("글"))
    for _ in range(60):
        nested = p(f"<hp:tbl><hp:tr><hp:tc>{nested}</hp:tc></hp:tr></hp:tbl>")
    with pytest.raises((RefusedDocument, CorruptDocument)):
        read(package(tmp_path, {"Contents/section0.xml": section(nested)}))


def test_a_package_without_sections_is_not_hwpx(tmp_path: Path) -> None:
    with pytest.raises(CorruptDocument, match="holds no text"):
        read(package(tmp_path, {"word/document.xml": "<a/>"}))
