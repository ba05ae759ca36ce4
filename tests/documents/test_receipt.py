"""The receipt of a document: letters of the source that stand in no block are counted, hidden ones are not lost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tasks.documents.blocks import Block, Cell, Document, HiddenText, Page, PageStatus
from tasks.documents.receipt import compare_letters, count_letters, count_source_letters, make_receipt
from tests.documents.zips import zipped

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
MC = "http://schemas.openxmlformats.org/markup-compatibility/2006"


def page_of(*texts: str, hidden: str = "", reason: str | None = None) -> Page:
    pieces = (HiddenText(text=hidden, reason="white on white"),) if hidden else ()
    blocks = tuple(Block(kind="paragraph", text=text) for text in texts)
    return Page(number=1, status=PageStatus.OK, reason=reason, blocks=blocks, hidden=pieces)


def test_letters_of_the_source_that_no_block_holds_are_lost_and_hidden_ones_are_not() -> None:
    page = compare_letters(page_of("예산 1,234", hidden="8 USD"), count_letters(["예산 1,234원", "8 USD", "ﬁn"]))
    assert (page.letters, page.letters_lost) == (10, 4)  # 예산1234원fin are shown; 원 and fin stand nowhere


def test_a_raised_digit_counts_as_its_digit() -> None:
    assert count_letters(["1,234¹ m²"]) == Counter("12341m2")


def test_text_of_a_package_is_counted_without_its_copies_for_older_programs(tmp_path: Path) -> None:
    run = "<w:r><w:t>{}</w:t></w:r>"
    box = (
        f"<mc:AlternateContent><mc:Choice>{run.format('box')}</mc:Choice><mc:Fallback>{run.format('box')}</mc:Fallback>"
    )
    body = f'<w:document xmlns:w="{W}" xmlns:mc="{MC}"><w:p>{run.format("a &amp; b")}{box}</mc:AlternateContent></w:p>'
    file = tmp_path / "a.docx"
    file.write_bytes(zipped({"word/document.xml": body + "</w:document>"}))
    assert count_source_letters(file, "docx") == Counter("abbox")


def test_a_receipt_names_what_a_person_should_look_at() -> None:
    cells = (Cell(row=0, col=0, text="1,204 (88.5)"), Cell(row=0, col=1, text="2020 2021"))
    table = Block(kind="table", text="1,204 (88.5) | 2020 2021", page=2, cells=cells)
    pages = (
        page_of("a\ufffd", hidden="x", reason="drawn text, not read"),
        Page(number=2, status=PageStatus.OK, blocks=(table,), letters=10, letters_lost=1),
        Page(number=3, status=PageStatus.TIMEOUT, reason="late"),
        Page(number=4, status=PageStatus.EMPTY, reason="blank"),
    )
    receipt = make_receipt(Document(format="pdf", reader="x", page_source="stored", pages=pages))
    assert (receipt.pages, receipt.pages_read, receipt.share_kept) == (4, 3, 0.9)
    assert (receipt.drawn_text, receipt.unsure_tables, receipt.replaced) == ((1,), (2,), 1)
    assert [(piece.page, piece.text) for piece in receipt.hidden] == [(1, "x")]


def test_a_bomb_in_a_picture_leaves_the_text_of_its_package_counted(tmp_path: Path) -> None:
    file = tmp_path / "a.docx"
    file.write_bytes(zipped({"word/document.xml": "<w:t>ab</w:t>", "word/media/b.png": "0" * 20_000_000}))
    assert count_source_letters(file, "docx") == Counter("ab")


def test_text_of_a_page_is_counted_without_its_tags_its_code_and_its_title(tmp_path: Path) -> None:
    file = tmp_path / "a.html"
    file.write_text("<title>x</title><p title='1 > 0'>a &amp; b<!-- c --><script>d('</p>')</script><i>e", "utf-8")
    assert count_source_letters(file, "html") == Counter("abe")


def test_strings_of_a_workbook_are_counted_without_their_readings(tmp_path: Path) -> None:
    file, readings = tmp_path / "a.xlsx", '<rPh sb="0" eb="1"><t>x</t></rPh><phoneticPr/>'
    strings = f"<sst><si><t>예산_x000D_</t>{readings}</si><si><r><t xml:space='preserve'>a </t></r></si></sst>"
    cells = '<worksheet><c t="inlineStr"><is><t>b</t></is></c><c><v>7</v></c></worksheet>'
    file.write_bytes(zipped({"xl/sharedStrings.xml": strings, "xl/worksheets/sheet1.xml": cells}))
    assert count_source_letters(file, "xlsx") == Counter("예산ab")
