"""The answer to a question that asks for a figure to be worked out from the tables of the documents that it names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from storage.index import Index
from tasks.language.sentences import language_of
from tasks.rag.answers import Draft, RetrievalPlan
from tasks.rag.numbers.computations import asks_to_work_out, defines, read_computation
from tasks.rag.numbers.concepts import mentions
from tasks.rag.numbers.document_numbers import TERM
from tasks.rag.numbers.line_lookup import Lines
from tasks.rag.numbers.working_out import work_out
from tasks.rag.planning.plan import QUALIFIER_FIELDS

NAMED = 0.5
"""Confidence from which a question names a document; a name of another one is a word that no rule knows."""
STATED = re.compile(
    r"\d\s?(?:%|per\s?cent|퍼센트|프로|배\b|basis points|times\b|x\b|to 1)"
    r"|(?<![$€£¥₩\d.,])\d{1,2}\.\d{1,2}(?!\s?(?:million|billion|thousand|억|조|만)|[\d,.])",
    re.IGNORECASE,
)
"""A share, a rate or a ratio that a document states itself."""
NOT_WORKED = {
    "en": "This figure takes arithmetic that was not understood. Passages that may hold its inputs:",
    "ko": "계산이 필요한 질문이지만 계산식을 이해하지 못했습니다. 관련된 곳:",
}


def worked(question: str, plan: RetrievalPlan, index: Index) -> Draft | None:
    """The figures that the question asks for; None where it asks for something else, or names no document.

    It abstains where an input is missing; a sentence may state the figure then.
    """
    filters = plan.filters
    names = {entry.document: entry.name for entry in index.catalogue}
    named = any(one.field not in QUALIFIER_FIELDS and one.confidence >= NAMED for one in filters.matches)
    if not (named or filters.mode == "only" or len(names) == 1):
        return None
    among = {document: names[document] for document in filters.documents or tuple(names) if document in names}
    if TERM.search(question):
        question = _with_years(question, _read(index, among))
    said = [match.said for match in filters.matches if match.field not in QUALIFIER_FIELDS]
    computation = read_computation(question, said=said, names=tuple(among.values()))
    if computation is None:
        return None
    lines = Lines(tuple(among), lambda year: _read(index, among, year))
    return work_out(computation, lines, documents=tuple(among.values()))


def checked(question: str, draft: Draft) -> Draft:
    """A draft of sentences; it abstains where the question asks for arithmetic and no sentence states its result."""
    if draft.abstained or not asks_to_work_out(question) or _states(draft.text, question):
        return draft
    told = f"{NOT_WORKED[language_of(question)]}\n{draft.text}"
    return draft._replace(text=told, abstained=True, reason="the question asks for arithmetic that was not understood")


def _states(text: str, question: str) -> bool:
    """Whether a line of an answer states a share or rate of what the question names, which needs no formula."""
    asked = {one.concept.key for one in mentions(question)}
    lines = (line for line in text.split("\n") if STATED.search(line))
    said = [not asked or bool(asked & {one.concept.key for one in mentions(line)}) for line in lines]
    return any(said) and not defines(question)


def _read(index: Index, among: Mapping[str, str], year: int | None = None) -> list[dict[str, Any]]:
    from storage.numbers import select_numbers

    return select_numbers(index.numbers, among, years=(year, year) if year else None).records()


def _with_years(question: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """The question with the year in place of a company's business term: 제23기 → 2023년."""
    years: dict[str, int] = {}
    for row in rows:
        for header in (*row["column_path"], *(row["row_path"] or ())[-1:]):
            if row["period"] and (named := TERM.search(header)):
                years.setdefault(named[1], row["period"]["year"])

    def year(term: re.Match[str]) -> str:
        known = years.get(term[1])
        return f"{known}년" if known else term[0]

    return TERM.sub(year, question)
