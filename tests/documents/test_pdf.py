"""The PDF reader: statuses, errors, notes, order. Documents are made here, a page or two each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pymupdf as untyped_pymupdf
import pytest

from tasks.documents.blocks import Page, PageStatus
from tasks.documents.document_errors import CorruptDocument, NeedsPassword
from tasks.documents.document_readers import ReadOptions
from tasks.documents.pdf.pdf_line_ends import join_words
from tasks.documents.pdf.pdf_reader import open_pdf

pymupdf: Any = untyped_pymupdf  # its annotations know few of its names

NO_OCR = ReadOptions(ocr="off")
PROSE = "The supplier delivers the system within six months of the contract and keeps it running for two more years. "
Draw = Callable[[Any], object]


def write(path: Path, *draws: Draw, **saving: Any) -> Path:
    """A PDF with a page of A4 for each function that draws one."""
    document = pymupdf.open()
    for draw in draws:
        draw(document.new_page(width=595, height=842))
    document.save(path, **saving)
    return path


def read(path: Path, options: ReadOptions = NO_OCR, *, password: str | None = None) -> list[Page]:
    return list(join_words(list(open_pdf(path, password=password, options=options).pages())))


def line(text: str, x: float = 72, y: float = 100, size: float = 11, font: str = "helv") -> Draw:
    return lambda page: page.insert_text((x, y), text, fontsize=size, fontname=font)


def column(text: str, box: tuple[float, float, float, float]) -> Draw:
    return lambda page: page.insert_textbox(pymupdf.Rect(box), text, fontsize=10)


def both(*draws: Draw) -> Draw:
    return lambda page: [draw(page) for draw in draws]


def texts(page: Page, *kinds: str) -> list[str]:
    return [block.text for block in page.blocks if not kinds or block.kind in kinds]


def noise(page: Any) -> None:
    """A raster image over the whole page."""
    pixels = bytes((x * x + 7 * y) % 256 for y in range(60) for x in range(40))
    page.insert_image(page.rect, pixmap=pymupdf.Pixmap(pymupdf.csGRAY, 40, 60, pixels, False))


def test_a_blank_page_says_that_it_is_blank(tmp_path: Path) -> None:
    (page,) = read(write(tmp_path / "a.pdf", lambda page: None))
    assert (page.status, page.reason, page.blocks) == (PageStatus.EMPTY, "blank", ())


def test_an_image_without_text_says_so(tmp_path: Path) -> None:
    (page,) = read(write(tmp_path / "a.pdf", noise))
    assert (page.status, page.reason) == (PageStatus.EMPTY, "image-only")


def test_a_box_on_a_rotated_page_is_where_the_reader_sees_it(tmp_path: Path) -> None:
    def draw(page: Any) -> None:
        page.set_rotation(90)
        # 100 points from the left and 50 from the top of the page as it is shown
        point = pymupdf.Point(100, 50) * page.derotation_matrix
        page.insert_text(point, "Hello", fontsize=12, rotate=90)

    (page,) = read(write(tmp_path / "a.pdf", draw))
    (block,) = page.blocks
    assert block.text == "Hello"
    assert block.bbox is not None
    assert block.bbox[0] == pytest.approx(100, abs=1)
    assert block.bbox[1] < 50 < block.bbox[3]


def test_text_that_runs_up_an_unrotated_page_is_read_along_its_lines(tmp_path: Path) -> None:
    def draw(page: Any) -> None:
        page.insert_text((100, 700), "First line of a landscape page", fontsize=12, rotate=90)
        page.insert_text((118, 700), "and its second line.", fontsize=12, rotate=90)

    (page,) = read(write(tmp_path / "a.pdf", draw))
    (block,) = page.blocks
    assert block.text == "First line of a landscape page and its second line."
    assert block.bbox is not None
    assert 85 < block.bbox[0] < 100
    assert block.bbox[3] == pytest.approx(700, abs=1)


def test_columns_are_read_one_after_the_other(tmp_path: Path) -> None:
    left, right = (72, 120, 280, 700), (315, 120, 523, 700)
    draw = both(line("A title over both columns", size=20), column("LEFT " + PROSE * 4, left), column(PROSE * 4, right))
    (page,) = read(write(tmp_path / "a.pdf", draw))
    order = texts(page)
    assert order[0] == "A title over both columns"
    assert order[1] == ("LEFT " + PROSE * 4).strip()
    assert order[2] == (PROSE * 4).strip()


def test_korean_structure_is_recognised(tmp_path: Path) -> None:
    draw = both(
        line("제1장 사업 개요", y=80, size=16, font="korea"),
        line("본 사업은 차세대 정보시스템을 구축하는 사업으로 다음과 같이 추진한다.", y=120, font="korea"),
        line("□ 추진 배경", y=150, font="korea"),
        line("○ 노후 장비 교체가 필요하며 예산은 3,575만 원이다.", y=170, font="korea"),
        line("- 서버 12대", x=84, y=190, font="korea"),
    )
    (page,) = read(write(tmp_path / "a.pdf", draw))
    assert [(b.kind, b.level) for b in page.blocks] == [
        ("heading", 1),
        ("paragraph", None),
        ("heading", 3),
        ("list", 1),
        ("list", 2),
    ]
    assert page.blocks[-1].place.heading_path == ("제1장 사업 개요", "□ 추진 배경")


def test_rows_that_repeat_and_page_numbers_are_headers_and_footers(tmp_path: Path) -> None:
    def draw(number: int) -> Draw:
        body = column(f"Page {number} has its own words. {PROSE}", (72, 120, 523, 400))
        return both(line("Annual Report 2023", y=40, size=8), body, line(f"- {number} -", x=290, y=810, size=8))

    pages = read(write(tmp_path / "a.pdf", *(draw(number) for number in (1, 2, 3))))
    assert [texts(page, "header") for page in pages] == [["Annual Report 2023"]] * 3
    assert [texts(page, "footer") for page in pages] == [["- 1 -"], ["- 2 -"], ["- 3 -"]]


def test_a_page_reads_the_same_alone_as_in_its_turn(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pdf", *(both(line(f"Chapter {n}", size=20), line(PROSE, y=150)) for n in range(1, 6)))
    alone = next(iter(open_pdf(path, password=None, options=NO_OCR).pages(first=4)))
    assert alone == read(path)[3]


def test_form_values_and_free_text_are_text_and_comments_are_notes(tmp_path: Path) -> None:
    def draw(page: Any) -> None:
        widget = pymupdf.Widget()
        widget.field_name, widget.field_value = "name", "Hong Gildong"
        widget.field_type, widget.rect = pymupdf.PDF_WIDGET_TYPE_TEXT, pymupdf.Rect(72, 80, 300, 100)
        page.add_widget(widget)
        page.add_freetext_annot(pymupdf.Rect(72, 200, 300, 230), "Approved")
        page.add_text_annot((72, 300), "Check this amount")

    (page,) = read(write(tmp_path / "a.pdf", draw))
    assert page.status is PageStatus.OK
    assert texts(page, "paragraph") == ["Hong Gildong", "Approved"]
    assert texts(page, "note") == ["Check this amount"]


def test_encryption_asks_for_a_password_and_tells_a_wrong_one(tmp_path: Path) -> None:
    locked = {"encryption": pymupdf.PDF_ENCRYPT_AES_256, "user_pw": "secret", "owner_pw": "owner"}
    path = write(tmp_path / "a.pdf", line("inside"), **locked)
    with pytest.raises(NeedsPassword, match="give its password"):
        read(path)
    with pytest.raises(NeedsPassword, match="does not open with the given password"):
        read(path, password="wrong")
    assert texts(read(path, password="secret")[0]) == ["inside"]


@pytest.mark.parametrize("reader", ["auto", "pdfplumber"])
def test_a_form_has_values_beside_labels_and_boxes_that_are_ticked_or_not(tmp_path: Path, reader: str) -> None:
    def draw(page: Any) -> None:
        kinds = pymupdf.PDF_WIDGET_TYPE_CHECKBOX, pymupdf.PDF_WIDGET_TYPE_TEXT
        fields = [("Length", kinds[1], "14"), ("전기 사용", kinds[0], True), ("야간 개장", kinds[0], False)]
        for row, (label, kind, value) in enumerate([*fields, ("Draft", kinds[1], "1 USD")]):
            y = 100 + 30 * row
            page.insert_text((72, y + 12), label, fontname="korea")
            widget = pymupdf.Widget()
            widget.field_name, widget.field_type, widget.field_value = label, kind, value
            widget.rect = pymupdf.Rect(200, y, 214 if kind == kinds[0] else 300, y + 14)
            widget.field_display = int(label == "Draft")  # 1: hidden
            page.add_widget(widget)
        page.insert_text((72, 300), "The fee is 14 EUR a metre.")

    (page,) = read(write(tmp_path / "a.pdf", draw), ReadOptions.model_validate({"ocr": "off", "pdf_reader": reader}))
    assert "Length 14 전기 사용 ☑ 야간 개장 ☐ Draft The fee" in " ".join(texts(page)).replace(" | ", " ")
    assert [hidden.text for hidden in page.hidden] == ["1 USD"]


@pytest.mark.parametrize("data", [b"", b"<html><body>not a PDF</body></html>" * 20], ids=["empty", "HTML"])
def test_what_is_no_pdf_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.pdf").write_bytes(data)
    with pytest.raises(CorruptDocument):
        read(tmp_path / "a.pdf")


def test_a_truncated_file_is_repaired_with_a_note_or_refused(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.pdf", *(line(f"page {n}") for n in range(1, 9))).read_bytes()
    outcomes: set[str] = set()
    for share in (0.2, 0.5, 0.9, 0.98):
        (tmp_path / "cut.pdf").write_bytes(whole[: int(len(whole) * share)])
        try:
            reader = open_pdf(tmp_path / "cut.pdf", password=None, options=NO_OCR)
        except CorruptDocument:
            outcomes.add("refused")
            continue
        assert "repaired" in reader.header.notes[0]
        assert all(page.blocks or page.reason for page in reader.pages())
        outcomes.add("repaired")
    assert outcomes == {"refused", "repaired"}


def test_the_header_tells_title_and_reader(tmp_path: Path) -> None:
    document = pymupdf.open()
    document.new_page()
    document.set_metadata({"title": "사업 계획서"})
    document.save(tmp_path / "a.pdf")
    header = open_pdf(tmp_path / "a.pdf", password=None, options=NO_OCR).header
    assert (header.title, header.page_count, header.page_source) == ("사업 계획서", 1, "stored")
    assert header.reader.startswith("pymupdf ")


@pytest.mark.shared
def test_no_page_of_real_files_is_silently_empty(shared: Path) -> None:
    silent: list[str] = []
    for path in sorted((shared / "documents" / "hostile").glob("*.pdf")):
        try:
            pages = read(path)
        except (NeedsPassword, CorruptDocument):
            continue
        silent += [f"{path.name} {page.number}" for page in pages if not page.blocks and not page.reason]
        # an error that is not the file's own damage would be a bug of ours
        ours = [page for page in pages if page.status is PageStatus.ERROR and "damaged: " not in (page.reason or "")]
        silent += [f"{path.name} {page.number}" for page in ours]
    assert silent == []


@pytest.mark.shared
def test_no_character_of_the_korean_files_is_lost_or_repeated(shared: Path) -> None:
    for path in sorted((shared / "documents" / "korean").glob("*.pdf")):
        with pymupdf.open(path) as document:
            stored = [page.get_text() for page in document]
        for text, page in zip(stored, read(path), strict=True):
            left_out = "." if "....." in text else ""  # dots that lead to an amount are no text of a table
            assert _characters(_all_text(page), left_out) == _characters(text, left_out), (path.name, page.number)


def _characters(text: str, left_out: str) -> list[str]:
    """Sorted, without white space; raised signs and fractions as their plain digits."""
    return sorted(char for char in normalize("NFKC", text) if not char.isspace() and char not in left_out)


def _all_text(page: Page) -> str:
    return "".join("".join(cell.text for cell in b.cells) if b.cells else b.text for b in page.blocks)


def test_a_page_whose_content_cannot_be_unpacked_is_an_error_and_not_blank(tmp_path: Path) -> None:
    document = pymupdf.open()
    for number in range(2):
        document.new_page().insert_text((72, 72), f"page {number + 1} of the report " * 3)
    file = tmp_path / "damaged.pdf"
    document.save(file, deflate=True)
    data = bytearray(file.read_bytes())
    start = data.rfind(b"stream\n", 0, data.rfind(b"endstream")) + len(b"stream\n")
    for place in range(start + 2, start + 20):
        data[place] ^= 0x55
    file.write_bytes(bytes(data))

    pages = list(open_pdf(file, password=None, options=ReadOptions(ocr="off")).pages())

    assert {page.status for page in pages} == {PageStatus.OK, PageStatus.ERROR}
    damaged = next(page for page in pages if page.status is PageStatus.ERROR)
    assert damaged.reason is not None
    assert damaged.reason.startswith("damaged: ")


def test_a_figure_with_many_labels_does_not_mix_the_columns(tmp_path: Path) -> None:
    left = column(PROSE * 4 + "left", (60, 60, 285, 300))
    labels = both(*(line(f"label {n}", 70 + n * 97 % 180, 320 + n * 7, size=7) for n in range(40)))
    right = column(PROSE * 12 + "right", (310, 60, 535, 700))
    joined = " ".join(texts(read(write(tmp_path / "a.pdf", both(left, labels, right)))[0]))
    assert PROSE * 4 + "left" in joined
    assert PROSE * 12 + "right" in joined


def test_a_bold_head_stays_with_the_sentence_that_it_begins(tmp_path: Path) -> None:
    def draw(page: Any) -> None:
        writer = pymupdf.TextWriter(page.rect)
        head = "Acquisitions and joint ventures may fail. "
        _, end = writer.append((72, 100), head, font=pymupdf.Font("hebo"), fontsize=10)
        for place, text in ((end, "We expect to go on making"), ((72, 112), PROSE[:75]), ((72, 124), PROSE[:75])):
            writer.append(place, text, font=pymupdf.Font("helv"), fontsize=10)
        writer.write_text(page)

    (text,) = texts(read(write(tmp_path / "a.pdf", draw))[0])
    assert "may fail. We expect to go on making The supplier" in text


CUT_WORDS = {
    "known": ("The list names hurricanes and mur-|ders, which existed before.", "murders, which"),
    "of the document": ("A quuxery is rare, and a quux-|ery that is new is rarer.", "a quuxery that"),
    "soft hyphen": ("It was found in the exist\u00ad|ing records of the town.", "the existing records"),
    "compound of the document": ("A short-lived plan or a short-|lived idea was ended.", "a short-lived idea"),
    "compound of words": ("The long-|term plan of a state-of-the-|art mill.", "long-term plan of a state-of-the-art"),
    "rest of a later word": ("They judged it in the short-|and long-term plans of all.", "short- and long-term"),
    "names": (
        "We met Mrs Curie-|Jones in a U.S.-|based COVID-|19 ward, a 5-|year plan.",
        "Curie-Jones in a U.S.-based COVID-19 ward, a 5-year",
    ),
}


@pytest.mark.parametrize(("lines", "whole"), CUT_WORDS.values(), ids=CUT_WORDS)
def test_a_word_that_a_line_end_cut_is_whole(tmp_path: Path, lines: str, whole: str) -> None:
    font = pymupdf.Font("cjk")  # has the soft hyphen as a sign of its own

    def draw(page: Any) -> None:
        writer = pymupdf.TextWriter(page.rect)
        for number, text in enumerate(lines.split("|")):
            writer.append((72, 100 + 14 * number), text, font=font, fontsize=10)
        writer.write_text(page)

    assert whole in " ".join(texts(read(write(tmp_path / "a.pdf", draw))[0]))


def test_a_word_that_a_column_or_a_page_cut_is_whole(tmp_path: Path) -> None:
    left = column(PROSE * 6 + "This is demanded by the munici-", (60, 80, 285, 700))
    right = column("palities. " + PROSE * 6 + "Each pays the trans-", (310, 80, 535, 700))
    below = column("portation itself. " + PROSE, (60, 80, 285, 700))
    number = line("1", x=300, y=820)
    first, second = read(write(tmp_path / "a.pdf", both(left, right, number), both(below, number)))
    assert "demanded by the municipalities." in texts(first)[0]
    assert "pays the transportation" in " ".join(texts(first))
    assert texts(second)[0].startswith("itself. The supplier")


@pytest.mark.parametrize("spaces_kept", [True, False])
def test_a_korean_word_goes_on_in_the_next_line(tmp_path: Path, spaces_kept: bool) -> None:
    # Hangul programs break lines at any syllable, and most write the space with which a line ends
    lines = [
        "사업의 원활한 추진을 위하여 과업내",
        "용을 변경하고 계약금액을 조정할",
        "수 있다. 과업내용의 변경 가능",
        "하지만 기간은 과업내용과 함께 바꾼다.",
    ]
    lines[1] += " " * spaces_kept
    draw = both(*(line(text, y=100 + 14 * n, size=10, font="korea") for n, text in enumerate(lines)))
    (text,) = texts(read(write(tmp_path / "a.pdf", draw))[0])
    # the third line ends before the margin, and so with a word
    assert "위하여 과업내용을 변경하고 계약금액을 조정할 수 있다. 과업내용의 변경 가능 하지만" in text


def test_a_bullet_far_from_its_text_begins_an_item_of_several_rows(tmp_path: Path) -> None:
    first, second = "Sales in our six largest markets came to more than eight billion, two fifths of all", "sales of it"
    draw = both(line("-", x=72), line(first, x=96), line(second, x=96, y=114))
    (page,) = read(write(tmp_path / "a.pdf", draw))
    assert [(block.kind, block.text) for block in page.blocks] == [("list", f"- {first} {second}")]


def test_lines_that_mix_two_sizes_are_one_paragraph(tmp_path: Path) -> None:
    def draw(page: Any) -> None:
        writer, end = pymupdf.TextWriter(page.rect), (72, 100)
        for size, text in ((14, "Ohio grew, "), (10, "by more than any other state of the union, "), (14, "and so ")):
            _, end = writer.append(end, text, fontsize=size)
        writer.append((72, 120), "did Utah, as the tables of this report show.", fontsize=14)
        writer.write_text(page)

    assert len(read(write(tmp_path / "a.pdf", draw))[0].blocks) == 1
