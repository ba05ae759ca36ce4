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


def test_the_folder_stays_small():
    assert sum(p.stat().st_size for p in files().values()) <= 6_000_000


@pytest.mark.parametrize("suffix", [".pdf", ".docx", ".hwp", ".hwpx", ".txt", ".md", ".html", ".zip"])
def test_each_format_is_there(suffix: str):
    assert any(name.endswith(suffix) for name in files())


def test_two_files_have_the_same_content():
    digests = Counter(hashlib.sha256(p.read_bytes()).digest() for p in files().values())
    assert max(digests.values()) == 2


def test_questions_cover_every_content_type():
    kinds = Counter(q["id"].rsplit("-", 1)[0] for q in QUESTIONS)
    wanted = ("text", "table", "borderless", "merged", "split", "chart", "raster", "scan", "near", "office", "plain")
    assert {kind for kind in wanted if kinds[kind] >= 3} == set(wanted)


def test_the_documents_of_questions_exist():
    assert {question["document"] for question in QUESTIONS} <= files().keys()


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


def test_metadata_names_files_that_exist_save_one():
    names = {Path(name).name for name in files()}
    assert [row["파일명"] for row in metadata() if row["파일명"] not in names] == [
        "아람군_해양쓰레기 수거 로봇 실증.pdf"
    ]
