"""The CSV beside the documents, and what first pages say plainly."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from tasks.documents.blocks import Block, Cell
from tasks.rag.indexing.metadata import match_rows, read_facts, read_table
from tasks.rag.rag_errors import MetadataUnusable
from tests.rag.indexing.test_notice_facts import make_document

HEADER = (
    "공고 번호,공고 차수,사업명,사업 금액,발주 기관,공개 일자,"
    "입찰 참여 시작일,입찰 참여 마감일,사업 요약,파일형식,파일명"
)
ROW = '20240001,0,"ERP, 구축",130000000,조달청,2024-05-01,2024-05-02,2024-05-20,"요약\n둘째 줄",hwp,제안요청서.hwp'


def _csv(folder: Path, text: str, encoding: str = "utf-8-sig") -> Path:
    path = folder / "list.csv"
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp949", "utf-16"])
def test_columns_get_our_names_in_any_encoding(tmp_path: Path, encoding: str) -> None:
    (row,) = read_table(_csv(tmp_path, f"{HEADER}\n{ROW}\n", encoding)).rows.values()

    assert row == {
        "notice_id": "20240001",
        "notice_round": "0",
        "project_name": "ERP, 구축",
        "project_amount": "130000000",
        "issuer": "조달청",
        "publish_date": "2024-05-01",
        "bid_start": "2024-05-02",
        "bid_end": "2024-05-20",
        "summary": "요약\n둘째 줄",
        "file_format": "hwp",
        "file_name": "제안요청서.hwp",
    }


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("제안요청서.hwp", "sub/제안요청서.hwp"),
        (unicodedata.normalize("NFD", "제안요청서.hwp"), "sub/제안요청서.hwp"),
        ("제안요청서", "sub/제안요청서.hwp"),
        ("sub\\제안요청서.hwp", "sub/제안요청서.hwp"),
        ("./sub/제안요청서.HWP", "sub/제안요청서.hwp"),
        ("Report 1.2", "Report 1.2.pdf"),
    ],
    ids=["name", "NFD", "without suffix", "path", "case", "dots"],
)
def test_files_are_found_by_what_the_csv_calls_them(tmp_path: Path, wanted: str, found: str) -> None:
    table = read_table(_csv(tmp_path, f"파일명,사업명\n{wanted},이름\n"))

    matched = match_rows(table, ["sub/제안요청서.hwp", "Report 1.2.pdf"])

    assert matched.by_file[found]["project_name"] == "이름"


def test_nothing_is_lost_in_silence(tmp_path: Path) -> None:
    rows = "1,0,a.pdf,가\n1,0,a.pdf,나\n2,0,missing.pdf,다\n3,0,,라\n"
    table = read_table(_csv(tmp_path, f"공고 번호,공고 차수,파일명,사업명\n{rows}"))

    matched = match_rows(table, ["a.pdf", "b.pdf"])

    assert matched.by_file["a.pdf"]["project_name"] == "가"
    assert matched.warnings == (
        *2 * ["The notice 1 (차수 0) stands in 2 rows; all are kept, mend the CSV if one is wrong."],
        "Line 3 names a file that a row above names too: `a.pdf`; the first row counts.",
        "Line 4 names the file `missing.pdf`, which is not in the folder.",
        "Line 5 names the file ``, which is not in the folder.",
    )
    assert matched.files_without_row == ("b.pdf",)


@pytest.mark.parametrize(
    ("text", "message"),
    [("사업명\n이름\n", "no column 파일명"), ("", "no bytes"), ("\n", "no column 파일명")],
    ids=["no file names", "empty", "blank"],
)
def test_an_unusable_csv_says_why(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(MetadataUnusable, match=message):
        read_table(_csv(tmp_path, text, "utf-8"))


def _block(text: str, kind: str = "paragraph", level: int | None = None) -> Block:
    return Block.model_validate({"kind": kind, "text": text, "page": 1, "level": level})


def test_labels_in_a_table_are_facts() -> None:
    texts = [("가. 사 업 명", "차세대 시스템"), ("수요기관(발주)", "한국생산기술연구원")]
    cells = [Cell(row=row, col=col, text=text) for row, pair in enumerate(texts) for col, text in enumerate(pair)]

    assert read_facts(make_document(Block(kind="table", text="…", page=1, cells=tuple(cells)))) == {
        "project_name": "차세대 시스템",
        "project_name_page": "1",
        "issuer": "한국생산기술연구원",
        "issuer_page": "1",
    }


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("○ 사업명 : 차세대 시스템 구축", "project_name", "차세대 시스템 구축"),
        ("1. 발주기관: 조달청", "issuer", "조달청"),
        ("- 사업예산 : 금 130,000,000원(VAT 포함)", "project_amount", "금 130,000,000원(VAT 포함)"),
        ("공고일자： 2024. 5. 1.", "publish_date", "2024. 5. 1."),
        ("For the fiscal year ended January 28, 2023", "period_end", "January 28, 2023"),
        ("Date of Report (Date of earliest event reported): May 2, 2023", "publish_date", "May 2, 2023"),
        ("BEST BUY CO., INC.\n(Exact name of registrant as specified in its charter)", "issuer", "BEST BUY CO., INC."),
    ],
)
def test_lines_with_a_label_are_facts(line: str, name: str, value: str) -> None:
    assert read_facts(make_document(_block(line)))[name] == value


@pytest.mark.parametrize("line", ["본 사업명은 변경될 수 있다.", "비고: 없음", "In the year ended well, we grew."])
def test_what_is_not_labelled_is_not_guessed(line: str) -> None:
    assert read_facts(make_document(_block(line))) == {}


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("제안요청서", "제안요청서"),
        ("Microsoft Word - draft.doc", "표지"),
        ("0000764478-23-000006", "표지"),
        (None, "표지"),
    ],
)
def test_the_title_is_the_files_own_unless_it_says_nothing(title: str | None, expected: str) -> None:
    assert read_facts(make_document(_block("표지", "heading", 1), title=title))["title"] == expected
