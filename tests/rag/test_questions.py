"""The questions by which retrieval and answers are measured are read, told apart, and point to their answers."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from functools import cache
from pathlib import Path

import pymupdf
import pytest

from tasks.rag.measuring.ranking_metrics import Question, read_questions

FILES = sorted((Path(__file__).parent / "questions").glob("*.jsonl"))
SAMPLES = Path(__file__).parents[1] / "samples"
SHARED = [line for line in read_questions(Path(__file__).parent / "questions" / "shared.jsonl") if line.answerable]
NUMBER = re.compile(r"\d+(?:\.\d+)*")


@cache
def pages(path: Path) -> tuple[str, ...]:
    with pymupdf.open(path) as pdf:
        return tuple(str(page.get_text()) for page in pdf.pages())


def plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).replace(",", "").replace("’", "'").casefold()


def holds(text: str, answer: str) -> bool:
    """Do the numbers of `answer` stand in `text`, or its words where it has no numbers?"""
    wanted = NUMBER.findall(plain(answer))
    if wanted:
        return set(wanted) <= set(NUMBER.findall(plain(text)))
    return "".join(plain(answer).split()) in "".join(plain(text).split())


@pytest.mark.parametrize("path", [*FILES, SAMPLES / "unanswerable.jsonl"], ids=lambda path: path.name)
def test_the_evaluation_reads_every_line_and_gold_belongs_to_answerable_questions_only(path: Path) -> None:
    questions = read_questions(path)
    assert len(questions) == len(path.read_text("utf-8").splitlines())
    assert [one.id for one in questions if one.answerable != (one.answer is not None)] == []


def test_no_id_and_no_question_stands_twice() -> None:
    asked = [line for path in (*FILES, SAMPLES / "unanswerable.jsonl") for line in read_questions(path)]
    assert max(Counter(line.id for line in asked).values()) == 1
    texts = Counter("".join(plain(line.question).split()) for line in asked)
    assert [text for text, count in texts.items() if count > 1] == []


def test_answers_from_our_samples_name_documents_that_there_are() -> None:
    ours = {f"samples/{unicodedata.normalize('NFC', path.name)}" for path in (SAMPLES / "documents").rglob("*")}
    named = {line.document for path in FILES for line in read_questions(path) if line.document}
    assert {name for name in named if name.startswith("samples/") and name.count("/") == 1} <= ours


def test_half_of_each_group_is_held_out() -> None:
    asked = [json.loads(line) for line in FILES[-2].read_text("utf-8").splitlines()]
    groups = Counter((line["lang"], line["answerable"], line["split"]) for line in asked)
    for lang, answerable in {(lang, answerable) for lang, answerable, _ in groups}:
        assert abs(groups[lang, answerable, "dev"] - groups[lang, answerable, "held"]) <= 1


@pytest.mark.shared
@pytest.mark.parametrize("line", SHARED, ids=lambda line: line.id)
def test_each_gold_page_of_the_real_documents_holds_the_answer(line: Question, shared: Path) -> None:
    root = shared / "documents"
    files = {unicodedata.normalize("NFC", path.relative_to(root).as_posix()): path for path in root.rglob("*.pdf")}
    text = pages(files[line.document or ""])
    assert line.pages
    assert all(holds(text[number - 1], line.answer or "") for number in line.pages)
