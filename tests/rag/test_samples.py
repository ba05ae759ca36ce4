"""The samples hold what the other tests rely on."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import unicodedata
import zipfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TypedDict

import pymupdf
import pytest


class Question(TypedDict):
    id: str
    question: str
    document: str
    pages: list[int]
    answer: str


SAMPLES = Path(__file__).parents[1] / "samples"
DOCUMENTS = SAMPLES / "documents"
QUESTIONS: list[Question] = [json.loads(line) for line in (SAMPLES / "questions.jsonl").read_text("utf-8").splitlines()]
ON_PAGES = [q for q in QUESTIONS if q["pages"]]
IN_TEXT = [q for q in ON_PAGES if q["id"].split("-")[0] not in ("raster", "scan")]
# HWP 5 is binary: the tests of its reader read it
WITHOUT_PAGES = [q for q in QUESTIONS if not q["pages"] and not q["document"].endswith(".hwp")]


@cache
def files() -> dict[str, Path]:
    """Path below the folder in NFC → the file, whatever the form of its name on the disk."""
    found = (p for p in DOCUMENTS.rglob("*") if p.is_file())
    return {unicodedata.normalize("NFC", p.relative_to(DOCUMENTS).as_posix()): p for p in found}


@cache
def pages(document: str) -> tuple[str, ...]:
    with pymupdf.open(files()[document]) as pdf:
        return tuple(squeezed(str(page.get_text())) for page in pdf.pages())


def squeezed(text: str) -> str:
    return "".join(unicodedata.normalize("NFC", text).split())


def metadata() -> list[dict[str, str]]:
    with (DOCUMENTS / "metadata.csv").open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_distinct_pages_number_150_or_more():
    by_digest = {hashlib.sha256(p.read_bytes()).digest(): name for name, p in files().items() if name.endswith(".pdf")}
    assert sum(len(pages(name)) for name in by_digest.values()) >= 150


def test_the_folder_stays_small():
    assert sum(p.stat().st_size for p in files().values()) <= 6_000_000


@pytest.mark.parametrize("suffix", [".pdf", ".docx", ".hwp", ".hwpx", ".txt", ".md", ".html", ".zip"])
def test_each_format_is_there(suffix: str):
    assert any(name.endswith(suffix) for name in files())


def test_one_file_name_is_decomposed():
    assert [p.name for p in files().values() if p.name != unicodedata.normalize("NFC", p.name)]


def test_two_files_have_the_same_content():
    digests = Counter(hashlib.sha256(p.read_bytes()).digest() for p in files().values())
    assert max(digests.values()) == 2


def test_scans_have_no_text():
    scans = [name for name in files() if "스캔" in name or "scan" in name]
    assert [set(pages(name)) for name in scans] == [{""}, {""}]


def test_near_duplicates_differ_in_one_page():
    name = "가람시_지능형 교통신호 통합관제시스템 구축{}.pdf"
    first, again, third = (pages(name.format(tail)) for tail in ("", "(재공고)", "(2차 재공고)"))
    assert [sum(a != b for a, b in zip(first, other, strict=True)) for other in (again, third)] == [1, 1]


@pytest.mark.parametrize("document", [name for name in files() if name.endswith(".pdf")])
def test_no_words_run_into_each_other_or_off_the_page(document: str):
    with pymupdf.open(files()[document]) as pdf:
        for page in pdf.pages():
            words = [pymupdf.Rect(word[:4]) for word in page.get_text("words")]
            inside = pymupdf.Rect(30, 20, page.rect.x1 - 30, page.rect.y1 - 20)
            assert all(inside.contains(word) for word in words)
            assert not any(overlap(a, b) for i, a in enumerate(words) for b in words[i + 1 : i + 60])


def overlap(a: pymupdf.Rect, b: pymupdf.Rect) -> bool:
    wide, tall = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
    return wide > 1.5 and tall > min(a.height, b.height) / 2


def test_question_ids_are_unique():
    assert len({q["id"] for q in QUESTIONS}) == len(QUESTIONS) >= 60


def test_questions_cover_every_content_type():
    kinds = Counter(q["id"].rsplit("-", 1)[0] for q in QUESTIONS)
    wanted = ("text", "table", "borderless", "merged", "split", "chart", "raster", "scan", "near", "office", "plain")
    assert {kind for kind in wanted if kinds[kind] >= 3} == set(wanted)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q["id"])
def test_the_document_of_a_question_exists(question: Question):
    assert question["document"] in files()


@pytest.mark.parametrize("question", IN_TEXT, ids=lambda q: q["id"])
def test_gold_pages_hold_the_answer(question: Question):
    text = pages(question["document"])
    assert all(squeezed(question["answer"]) in text[number - 1] for number in question["pages"])


@pytest.mark.parametrize("question", WITHOUT_PAGES, ids=lambda q: q["id"])
def test_documents_without_pages_hold_the_answer(question: Question):
    text = re.sub("<[^>]*>", "", markup(files()[question["document"]]))
    assert squeezed(question["answer"]) in squeezed(text)


def markup(path: Path) -> str:
    if not zipfile.is_zipfile(path):
        return path.read_text("utf-8")
    with zipfile.ZipFile(path) as archive:
        return "".join(archive.read(name).decode() for name in archive.namelist() if name.endswith(".xml"))


@pytest.mark.parametrize("question", [q for q in IN_TEXT if q["id"].startswith("split")], ids=lambda q: q["id"])
def test_split_answers_stand_on_the_page_after_the_caption(question: Question):
    captions = {"Table2.Storesbyregion", "Table3.Requirements", "<표3>읍면동별공공시설", "<표Ⅲ-1>연결재무상태표"}
    text, (gold,) = pages(question["document"]), question["pages"]
    before, here = ({caption for caption in captions if caption in text[number]} for number in (gold - 2, gold - 1))
    assert len(before - here) == 1


def test_metadata_names_files_that_exist_save_one():
    names = {Path(name).name for name in files()}
    assert [row["파일명"] for row in metadata() if row["파일명"] not in names] == [
        "아람군_해양쓰레기 수거 로봇 실증.pdf"
    ]


def test_metadata_amounts_stand_in_the_documents():
    by_name = {Path(name).name: name for name in files()}
    rows = [
        row for row in metadata() if row["사업 금액"] and row["파일명"].endswith(".pdf") and row["파일명"] in by_name
    ]
    missing = [r["파일명"] for r in rows if f"{int(r['사업 금액']):,}원" not in "".join(pages(by_name[r["파일명"]]))]
    assert (len(rows), missing) == (7, [])


def test_metadata_closing_dates_stand_in_the_documents():
    row = next(row for row in metadata() if row["공고 차수"] == "1")
    date, time = row["입찰 참여 마감일"].split()
    year, month, day = date.split("-")
    assert f"{year}.{int(month)}.{int(day)}.{time}" in "".join(pages(row["파일명"]))
