"""The questions by which retrieval and answers are measured point to pages that hold their answers."""

from __future__ import annotations

import re
import unicodedata
import zipfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Literal

import pymupdf
import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tasks.rag.measuring.ranking_metrics import read_questions

QUESTIONS = Path(__file__).parent / "questions" / "shared.jsonl"
SAMPLES = Path(__file__).parents[1] / "samples"
DOCUMENTS = SAMPLES / "documents"
NUMBER = re.compile(r"\d+(?:\.\d+)*")


class Line(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    id: str = Field(min_length=1)
    lang: Literal["en", "ko"]
    answerable: bool
    question: str = Field(min_length=5)
    document: str | None
    pages: list[int]
    answer: str | None

    @model_validator(mode="after")
    def _has_gold_if_answerable(self) -> Line:
        gold = (self.document is not None, bool(self.pages), self.answer is not None)
        if set(gold) != {self.answerable}:
            raise ValueError(
                f"{self.id}: a document, pages and an answer belong to answerable questions and only there"
            )
        return self


class Shared(Line):
    kind: str
    split: Literal["dev", "held"]
    derived: bool = False
    """The answer is read from a picture or worked out; `why` says how."""
    why: str = ""


class Across(Shared):
    """Of a document in another language."""

    @model_validator(mode="before")
    @classmethod
    def _pages_only_where_there_are_some(cls, fields: dict[str, object]) -> dict[str, object]:
        """Two questions are of a HWPX whose pages were not printed by Hancom's program."""
        return fields | {"pages": fields["pages"] or [0]}


class Asked(Line):
    kind: str
    split: Literal["calibration", "report", "promise", "develop", "check"]
    derived: bool
    """The answer is worked out from several numbers; `why` says how."""
    why: str

    @model_validator(mode="before")
    @classmethod
    def _pages_only_where_there_are_some(cls, fields: dict[str, object]) -> dict[str, object]:
        """HWP and DOCX have no pages of their own."""
        return fields | {"pages": fields["pages"] or ([0] if fields["answerable"] else [])}


class Exchange(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str = Field(min_length=5)
    documents: list[str] = Field(min_length=1)
    pages: list[tuple[str, int]]
    answer: list[str] = Field(min_length=1)


class Conversation(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    lang: Literal["en", "ko"]
    kind: Literal["multi", "compare", "followup"]
    turns: list[Exchange] = Field(min_length=1)


def lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


SHARED = [Shared.model_validate_json(line) for line in lines(QUESTIONS)]
ANSWERABLE = [line for line in SHARED if line.answerable]
ANSWERS = [Asked.model_validate_json(line) for line in lines(QUESTIONS.with_name("answers.jsonl"))]
PROMISE = [Asked.model_validate_json(line) for line in lines(QUESTIONS.with_name("promise-en.jsonl"))]
FIGURES = [Asked.model_validate_json(line) for line in lines(QUESTIONS.with_name("figures.jsonl"))]
FIGURES_KO = [Asked.model_validate_json(line) for line in lines(QUESTIONS.with_name("figures-ko.jsonl"))]
TABLES = [Asked.model_validate_json(line) for line in lines(QUESTIONS.with_name("tables.jsonl"))]
CROSS = [Across.model_validate_json(line) for line in lines(QUESTIONS.with_name("english-on-korean.jsonl"))]
UNANSWERABLE = [Line.model_validate_json(line) for line in lines(SAMPLES / "unanswerable.jsonl")]
CONVERSATIONS = [Conversation.model_validate_json(line) for line in lines(SAMPLES / "conversations.jsonl")]
EXCHANGES = [(f"{talk.id}.{number}", turn) for talk in CONVERSATIONS for number, turn in enumerate(talk.turns)]


@cache
def pages(path: Path) -> tuple[str, ...]:
    with pymupdf.open(path) as pdf:
        return tuple(str(page.get_text()) for page in pdf.pages())


@cache
def files(root: Path) -> dict[str, Path]:
    """Path below `root` in NFC → the file, whatever the form of its name on the disk."""
    found = (path for path in root.rglob("*") if path.is_file())
    return {unicodedata.normalize("NFC", path.relative_to(root).as_posix()): path for path in found}


def holds(text: str, answer: str) -> bool:
    """Do the numbers of `answer` stand in `text`, or its words where it has no numbers?"""
    wanted = NUMBER.findall(plain(answer))
    return set(wanted) <= set(NUMBER.findall(plain(text))) if wanted else squeezed(answer) in squeezed(text)


def quotes(text: str, part: str) -> bool:
    """Does `part` stand in `text` word for word?"""
    return holds(text, part) and squeezed(part) in squeezed(text)


def plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).replace(",", "").replace("’", "'").casefold()


def squeezed(text: str) -> str:
    return "".join(plain(text).split())


def test_answers_are_enough_to_calibrate_and_to_report():
    assert len(ANSWERS) == len({line.id for line in ANSWERS}) >= 300
    for split in ("calibration", "report"):
        half = [line for line in ANSWERS if line.split == split]
        assert {line.lang for line in half} == {"en", "ko"}
        assert 0.3 < sum(not line.answerable for line in half) / len(half) < 0.4
    assert all(bool(line.why) for line in ANSWERS if line.derived), "what is worked out says how"
    assert not {line.question for line in ANSWERS} & {line.question for line in SHARED}


def test_promises_are_for_the_threshold_only():
    assert len(PROMISE) == len({line.id for line in PROMISE}) >= 130
    assert {(line.lang, line.split) for line in PROMISE} == {("en", "promise")}
    assert 0.3 < sum(not line.answerable for line in PROMISE) / len(PROMISE) < 0.4
    assert all(bool(line.why) for line in PROMISE if line.derived), "what is worked out says how"


def test_no_promise_asks_what_another_question_asks():
    asked = Counter(squeezed(line.question) for line in (*PROMISE, *ANSWERS, *SHARED))
    assert [line.id for line in PROMISE if asked[squeezed(line.question)] > 1] == []


@pytest.mark.parametrize(
    "asked",
    [ANSWERS, PROMISE, FIGURES, FIGURES_KO, TABLES],
    ids=["answers", "promise", "figures", "figures-ko", "tables"],
)
def test_answers_come_from_documents_that_there_are(asked: list[Asked]):
    ours = {f"samples/{name}" for name in files(DOCUMENTS)}
    named = {line.document for line in asked if line.document}
    assert {name for name in named if name.startswith("samples/")} <= ours


@pytest.mark.shared
@pytest.mark.parametrize(
    "asked",
    [ANSWERS, PROMISE, FIGURES, FIGURES_KO, TABLES],
    ids=["answers", "promise", "figures", "figures-ko", "tables"],
)
def test_answers_from_the_shared_documents_name_them(asked: list[Asked], shared: Path):
    named = {line.document for line in asked if line.document and not line.document.startswith("samples/")}
    assert named <= set(files(shared / "documents"))


@pytest.mark.shared
@pytest.mark.parametrize("line", [line for line in CROSS if line.pages != [0]], ids=lambda line: line.id)
def test_each_gold_page_of_an_english_question_holds_the_korean_answer(line: Across, shared: Path):
    known = files(shared / "documents")
    # beside each HWP lies the PDF that Hancom's program printed of it
    text = pages(known.get(f"{line.document}.pdf") or known[line.document or ""])
    assert [number for number in line.pages if not holds(text[number - 1], line.answer or "")] == []


def test_english_questions_on_korean_documents_are_halved():
    assert len(CROSS) == len({line.id for line in CROSS}) == 30
    assert {(line.lang, line.kind) for line in CROSS} == {("en", "cross")}
    assert sum(line.split == "dev" for line in CROSS) == 15


@pytest.mark.shared
@pytest.mark.parametrize(
    "line",
    [
        line
        for line in (*PROMISE, *FIGURES, *FIGURES_KO)
        if line.kind == "value" and not line.derived and line.pages != [0]
    ],
    ids=lambda line: line.id,
)
def test_each_gold_page_of_a_promise_holds_the_value(line: Asked, shared: Path):
    known = files(shared / "documents") | {f"samples/{name}": path for name, path in files(DOCUMENTS).items()}
    text = pages(known[line.document or ""])
    assert [number for number in line.pages if not holds(text[number - 1], line.answer or "")] == []


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("Total 36,689 40,121", "36,689", True),
        ("Total 136,689", "36,689", False),
        ("about 18.7 percent", "8.7", False),
        ("Vietnam\nand China", "Vietnam and China", True),
        ("Vietnam", "China", False),
    ],
    ids=["separator", "longer number", "decimals", "line break", "other word"],
)
def test_a_text_holds_whole_numbers_or_else_the_words(text: str, answer: str, expected: bool):
    assert holds(text, answer) is expected


@pytest.mark.parametrize(
    ("answerable", "gold"),
    [(True, (None, [], None)), (True, ("a", [], "b")), (False, ("a", [1], "b"))],
    ids=["answerable without gold", "without pages", "unanswerable with gold"],
)
def test_gold_belongs_to_answerable_questions_only(answerable: bool, gold: tuple[str | None, list[int], str | None]):
    fields = dict(zip(("document", "pages", "answer"), gold, strict=True))
    with pytest.raises(ValidationError, match="belong to answerable"):
        Line.model_validate({"id": "x", "lang": "en", "answerable": answerable, "question": "Which?"} | fields)


def test_ids_are_unique():
    ids = [line.id for line in (*SHARED, *UNANSWERABLE)] + [talk.id for talk in CONVERSATIONS]
    assert max(Counter(ids).values()) == 1


def test_no_question_equals_another():
    asked = [line.question for line in read_questions(SAMPLES / "questions.jsonl")]
    asked += [line.question for line in (*SHARED, *UNANSWERABLE)] + [turn.question for _, turn in EXCHANGES]
    assert [text for text, count in Counter(map(squeezed, asked)).items() if count > 1] == []


def test_there_are_as_many_questions_as_the_figures_need():
    groups = Counter((line.lang, line.answerable) for line in SHARED)
    wanted = {("en", True): 40, ("ko", True): 24, ("en", False): 10, ("ko", False): 10}
    assert {group for group, least in wanted.items() if groups[group] >= least} == set(wanted)


def test_half_of_each_group_is_held_out():
    groups = Counter((line.lang, line.answerable, line.split) for line in SHARED)
    for lang in ("en", "ko"):
        for answerable in (True, False):
            assert abs(groups[lang, answerable, "dev"] - groups[lang, answerable, "held"]) <= 1


def test_a_derived_answer_says_why():
    assert [line.id for line in SHARED if line.derived is not bool(line.why)] == []


@pytest.mark.parametrize("path", [QUESTIONS, SAMPLES / "unanswerable.jsonl"], ids=lambda path: path.name)
def test_the_evaluation_reads_every_line(path: Path):
    assert len(read_questions(path)) == len(lines(path))


@pytest.mark.shared
@pytest.mark.parametrize("line", ANSWERABLE, ids=lambda line: line.id)
def test_each_gold_page_of_the_real_documents_holds_the_answer(line: Shared, shared: Path):
    text = pages(files(shared / "documents")[line.document or ""])
    gold = [text[number - 1] for number in line.pages if number >= 1]
    assert gold
    assert line.derived or all(holds(page, line.answer or "") for page in gold)


def test_the_samples_have_unanswerable_questions_in_both_languages():
    groups = Counter(line.lang for line in UNANSWERABLE if not line.answerable)
    assert min(groups["en"], groups["ko"]) >= 8


def test_each_kind_of_conversation_is_there_in_both_languages():
    kinds = Counter(talk.kind for talk in CONVERSATIONS)
    assert {kind for kind, count in kinds.items() if count >= 3} == {"multi", "compare", "followup"}
    assert len({(talk.kind, talk.lang) for talk in CONVERSATIONS}) == 6


def test_a_follow_up_has_two_turns_and_the_others_one():
    assert {(talk.kind, len(talk.turns)) for talk in CONVERSATIONS} == {("multi", 1), ("compare", 1), ("followup", 2)}


@pytest.mark.parametrize("turn", [turn for _, turn in EXCHANGES], ids=[name for name, _ in EXCHANGES])
def test_the_documents_of_a_turn_hold_its_answers(turn: Exchange):
    found = [text for name in turn.documents for text in places(turn, name)]
    assert [part for part in turn.answer if not any(quotes(text, part) for text in found)] == []


@pytest.mark.parametrize("turn", [turn for _, turn in EXCHANGES], ids=[name for name, _ in EXCHANGES])
def test_each_gold_page_of_a_turn_holds_one_of_its_answers(turn: Exchange):
    gold = [pages(files(DOCUMENTS)[name])[number - 1] for name, number in turn.pages]
    assert {name for name, _ in turn.pages} == {name for name in turn.documents if name.endswith(".pdf")}
    assert all(any(quotes(text, part) for part in turn.answer) for text in gold)


def places(turn: Exchange, name: str) -> list[str]:
    """The texts in which the answers of a turn stand: gold pages, or the whole of a document without pages."""
    path = files(DOCUMENTS)[name]
    if not name.endswith(".pdf"):
        return [re.sub("<[^>]*>", " ", markup(path))]
    return [pages(path)[number - 1] for document, number in turn.pages if document == name]


def markup(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        return "".join(archive.read(name).decode() for name in archive.namelist() if name.endswith(".xml"))
