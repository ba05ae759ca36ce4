"""Answers without a model: returns the sentences and table rows that answer best, or says that the documents do not."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from tasks.language.marks import drop_marks
from tasks.language.sentences import CITATION_MARK, Language, disarm_marks
from tasks.language.tokens import BIGRAM
from tasks.rag.answering.citations import MOST_QUOTE_CHARS, make_citation
from tasks.rag.answering.passage_scores import Scored, score_passages, yes_or_no
from tasks.rag.answering.passages import Passage, cells_of, is_of_numbers, items_of, read_passages
from tasks.rag.answering.question_reading import MOST_QUESTION_CHARS, NUMERIC, Question, asks_to_explain, read_question
from tasks.rag.answers import Citation, Draft, QueryType, place_of
from tasks.rag.planning.names import stem_of
from tasks.rag.retrieval.search import Hit

MOST_SENTENCES = 3
"""Most sentences of an answer about one thing."""
MOST_DOCUMENTS = 6
"""Most documents that an answer covers."""
NEAR_BEST = 0.12
"""How much less than the best sentence a further one may score if it adds a word of the question."""
AS_GOOD = 0.03
"""How much less than the best sentence any further one may score."""
FEWEST_OF_BEST = 0.7
"""Share of the best score that a document's best passage needs for the document to be mentioned."""
ALIKE = 0.8
"""Share of common words from which two passages count as saying the same."""
FEWEST_CONFIDENCE = 0.5
"""Confidence below which the answer is that the documents do not tell."""
AS_WELL = 0.15
"""How much less than the best passage that of another document may score to answer as well, where none is named.

From .05 to .3 it is the same: of 150 questions over 278 filings 10 fewer answers are wrong, and 2 fewer right."""
LEAST_AFFIRMED = 0.6
"""Share of the question's words that a sentence must cover to be read as *yes* or *no*."""
YES_OR_NO = {"ko": {True: "예: ", False: "아니요: "}, "en": {True: "Yes: ", False: "No: "}}
NO_ANSWER = {"ko": "문서에서 답을 찾지 못했습니다.", "en": "The documents do not tell."}
CLOSEST = {"en": ("The closest place", "The closest places"), "ko": ("가장 가까운 곳", "가장 가까운 곳")}
NEEDS_A_MODEL = {
    "ko": "요약하거나 설명하는 답은 언어 모델이 써야 합니다(`--llm`). 관련된 곳:",
    "en": "An answer in prose has to be written by a model (`--llm`). Passages that may hold what it needs:",
}
SEVERAL_ANSWER = {
    "ko": "여러 문서에 답이 있습니다. 질문에 문서 하나를 말해 주십시오:",
    "en": "Several documents answer this. Name one of them in the question:",
}
_NOT_TOLD = {"ko": "문서에서 찾지 못했습니다.", "en": "not told."}


class Group(NamedTuple):
    """A side of a comparison, or one of several things that are asked about."""

    name: str
    documents: Sequence[str]
    """Digests of the documents on this side."""


def extract_answer(
    question: str,
    hits: Sequence[Hit],
    *,
    query_type: QueryType,
    tokenizer: str | None,
    groups: Sequence[Group] = (),
    is_unnamed: bool = False,
) -> Draft:
    """Return the best sentences of the hits with their citations; for `multi` and `compare`, of each document.

    tokenizer: the one that the index was made with; None for an index without BM25. groups: the sides of a comparison;
    each gets a line of its own. is_unnamed: whether one document is meant and none named. It abstains if unsure, where
    prose is asked for, and with a line of each where several documents could be meant. Raises WrongTokenizer.
    """
    parsed = read_question(question, tokenizer=tokenizer or BIGRAM)
    notes: tuple[str, ...] = ()
    if len(question) > MOST_QUESTION_CHARS:
        notes = (
            f"the question has {len(question):,} characters; "
            f"sentences were chosen by the first {MOST_QUESTION_CHARS:,} of them",
        )
    # the items of a list are sentences of their own, too
    passages = [passage for passage in read_passages(hits) if parsed.wants == "list" or not passage.is_list]
    if asks_to_explain(question):
        passages = [passage for passage in passages if not is_of_numbers(passage)]
    scored = score_passages(parsed, hits, passages)
    ranked = sorted(scored, key=lambda entry: (-entry.score, entry.passage.hit, entry.passage.place))
    if not ranked:
        return Draft(NO_ANSWER[parsed.language], abstained=True, reason="nothing was found", notes=notes)
    # a follow-up is on one thing, but carries over words of the question before, which need not be named again
    confidence = confidence_of(evidence_of(ranked[0], parsed, several=query_type != "single"))
    if parsed.wants == "writer" or (parsed.wants == "why" and confidence < FEWEST_CONFIDENCE):
        text, citations = _compose_lines(parsed, [("", entry) for entry in _select_distinct(ranked)], hits)
        text = f"{NEEDS_A_MODEL[parsed.language]}\n{text}"
        return Draft(text, citations, abstained=True, reason="the question asks for a text to be written", notes=notes)
    abstained, best = confidence < FEWEST_CONFIDENCE, ranked[0]
    by_document = _best_by_document(ranked, hits)
    rivals = [rival for rival in by_document if rival.score > best.score - AS_WELL and not _is_repetition(rival, best)]
    if abstained:
        citations = (make_citation(1, hits[best.passage.hit], _quote(parsed, best.passage)),)
        text = f"{NO_ANSWER[parsed.language]}{point_to(citations, parsed.language)}"
    elif is_unnamed and rivals:
        alike = [(name_of(hits[each.passage.hit]), each) for each in (best, *rivals)[:MOST_DOCUMENTS]]
        text, citations = _compose_lines(parsed, alike, hits)
        text, why = f"{SEVERAL_ANSWER[parsed.language]}\n{text}", "several documents answer about equally well"
        return Draft(
            text, citations, abstained=True, reason=why, notes=notes, confidence=confidence, is_of_several=True
        )
    else:
        lines = _by_side(parsed, ranked, hits, groups) if query_type in ("multi", "compare") else []
        if len(lines) < 2:
            first = hits[ranked[0].passage.hit].chunk.document
            of_first = [candidate for candidate in ranked if hits[candidate.passage.hit].chunk.document == first]
            lines = [("", candidate) for candidate in _select_distinct(of_first)]
        text, citations = _compose_lines(parsed, lines, hits)
    lacks = f", without {', '.join(best.missing)}" if best.missing else ""
    why = (
        f"the best passage covers {best.coverage:.0%} of the question and {best.focus:.0%} of what it asks for{lacks}; "
        f"it {'holds' if best.answers_kind else 'lacks'} the kind of answer that is asked for"
    )
    return Draft(text, citations, abstained=abstained, reason=why, notes=notes, confidence=confidence)


def point_to(citations: Sequence[Citation], language: Language) -> str:
    """Return ` The closest places: a, page 3 (People) [1]; b, page 5 [2].`, headings in brackets; "" without any."""
    places: list[str] = []
    for citation in citations:
        place = citation.place
        heading = f" ({place.heading_path[-1]})" if place.heading_path else ""
        document = stem_of(citation.document)
        where = place_of(document, citation.page, citation.page_source, place.cells, language=language)
        places.append(f"{CITATION_MARK.sub('', f'{where}{heading}')} [{citation.n}]")
    return f" {CLOSEST[language][len(places) > 1]}: {'; '.join(places)}." if places else ""


def _select_distinct(ranked: Sequence[Scored]) -> list[Scored]:
    """Return the best passage and those that are nearly as good and say something else, at most MOST_SENTENCES."""
    selected = [ranked[0]]
    if ranked[0].passage.is_list:
        return selected  # a list that is asked for is answered by its items alone
    for candidate in ranked[1:]:
        if len(selected) >= MOST_SENTENCES or candidate.score < ranked[0].score - NEAR_BEST:
            break
        repeats = any(_is_repetition(candidate, earlier) for earlier in selected)
        if not candidate.answers_kind or repeats:
            continue
        adds = not candidate.terms <= frozenset[int]().union(*(earlier.terms for earlier in selected))
        if adds or candidate.score >= ranked[0].score - AS_GOOD:
            selected.append(candidate)
    return selected


def _is_repetition(a: Scored, b: Scored) -> bool:
    """Return whether two passages say the same: hardly another word, and no other number."""
    words_a, words_b = (set(re.findall(r"\w+", scored.passage.text)) for scored in (a, b))
    numbers = {word for word in words_a ^ words_b if word[0].isdigit()}
    return not numbers and len(words_a & words_b) >= ALIKE * min(len(words_a), len(words_b))


Line = tuple[str, Scored | None]
"""The name of a document or side (empty if it is the only one) and its best passage (None without an answer)."""


def _by_side(question: Question, ranked: Sequence[Scored], hits: Sequence[Hit], groups: Sequence[Group]) -> list[Line]:
    """Return each side's best passage, None if unsure; without sides, those of up to six documents nearly as good."""
    by_document = _best_by_document(ranked, hits)
    if len(groups) < 2:
        least = FEWEST_OF_BEST * ranked[0].score
        good = [candidate for candidate in by_document if candidate.score >= least]
        return [(name_of(hits[candidate.passage.hit]), candidate) for candidate in good[:MOST_DOCUMENTS]]
    lines: list[Line] = []
    for group in groups:
        of_group = (each for each in by_document if hits[each.passage.hit].chunk.document in group.documents)
        first = next(of_group, None)
        is_sure = first is not None and confidence_of(evidence_of(first, question, several=True)) >= FEWEST_CONFIDENCE
        lines.append((group.name, first if is_sure else None))
    return lines


def _best_by_document(ranked: Sequence[Scored], hits: Sequence[Hit]) -> list[Scored]:
    """Return the best passage of each document, best first."""
    by_document: dict[str, Scored] = {}
    for candidate in ranked:
        by_document.setdefault(hits[candidate.passage.hit].chunk.document, candidate)
    return list(by_document.values())


def _compose_lines(question: Question, lines: Sequence[Line], hits: Sequence[Hit]) -> tuple[str, tuple[Citation, ...]]:
    """Return the lines as text with citation marks; a side without a passage is reported as not told."""
    texts: list[str] = []
    citations: list[Citation] = []
    for name, scored in lines:
        label = f"{name}: " if name else ""
        if scored is None:
            texts.append(label + _NOT_TOLD[question.language])
            continue
        # yes or no, where the question asks for that and the sentence says most of what it asks
        affirms = yes_or_no(question, scored.passage.text)
        if affirms is not None and scored.coverage >= LEAST_AFFIRMED:
            label += YES_OR_NO[question.language][affirms]
        # the mark stands before the full stop, unless that ends a short form
        n, text = len(citations) + 1, drop_marks(render_passage(question, scored.passage))
        ending = re.search(r"(?<!\b[A-Za-z])(?<!Inc)(?<!Ltd)(?<!Co)[.!?。]$", text)
        texts.append(label + (f"{text[:-1].rstrip()} [{n}]{text[-1]}" if ending else f"{text} [{n}]"))
        citations.append(make_citation(n, hits[scored.passage.hit], _quote(question, scored.passage)))
    return "\n".join(texts), tuple(citations)


def name_of(hit: Hit) -> str:
    """Return the name of the hit's document as an answer writes it: its file without folder and ending."""
    return CITATION_MARK.sub("", stem_of(hit.document_name))


def _quote(question: Question, passage: Passage) -> str:
    """Return a passage as a citation quotes it: of a long one the part around what answers."""
    return _cut_around(question, passage.note or passage.text, MOST_QUOTE_CHARS)


MOST_CHARS = 400
"""Most characters of a passage in an answer; a longer one is cut around what answers."""
_BULLET = re.compile(r"^\s*(?:[-–—○●□■▪▶◦·•*※❍◇◆▷]\s*)?(?:[(（]?(?:\d{1,2}|[가-하]|[①-⑳])[.)）]\s+|[①-⑳]\s*)?(?=\S)")
_DIGIT = re.compile(r"\d")
_HAS_UNIT = re.compile(r"[%$₩€£¥]|\d\s?(?:원|천원|만|억|명|개|건|대|톤|일|시간|㎡|㎞|℃|points?|years?)")


def render_passage(question: Question, passage: Passage) -> str:
    """Return a passage as a line of up to 400 characters: items of a list, asked columns of a row, or the sentence."""
    if passage.is_list:
        text = "; ".join(item.rstrip(" ;,") for item in items_of(passage.text))
    else:
        text = _render_row(question, passage) if passage.is_row else _BULLET.sub("", " ".join(passage.text.split()))
    if passage.unit and _DIGIT.search(text) and not _HAS_UNIT.search(text):  # the unit of a table stands once, above it
        text = f"{text} ({passage.unit})"
    text = disarm_marks(" ".join(text.split()))  # marks such as [3] of the document are no citations of ours
    part = _cut_around(question, text, MOST_CHARS - 2)
    return f"{'…' * (not text.startswith(part))}{part}{'…' * (not text.endswith(part))}"


def _cut_around(question: Question, text: str, most: int) -> str:
    """Return the part of a text, of whole words and at most so many characters, that holds what may answer best.

    It holds most different words of the question, and of such parts most of its words and numbers.
    """
    if len(text) <= most:
        return text
    words = [
        (match.start(), term.word)
        for term in question.terms
        for match in re.finditer(re.escape(term.word), text, re.IGNORECASE)
    ]
    telling = [*(at for at, _ in words), *(match.start() for match in re.finditer(r"\d[\d,.]*", text))]

    def weigh(start: int) -> tuple[int, int, int]:
        # a little before the end of the part, so that what is told there is not cut in two
        inside = range(start, start + 9 * most // 10)
        return len({word for at, word in words if at in inside}), sum(at in inside for at in telling), -start

    start = max([0, *(match.end() for match in re.finditer(r"\s+", text))], key=weigh)
    end = text.rfind(" ", start, start + most + 1) if start + most < len(text) else len(text)
    return text[start : end if end > start else start + most].strip()


def _render_row(question: Question, passage: Passage) -> str:
    """Return a row with its asked columns, `label — name: value; name: value`; unchanged where these have no names."""
    label, dash, rest = passage.text.partition(" — ")
    values = cells_of(passage.text)[1:]
    columns: list[tuple[str, str]] = []
    if passage.names and len(values) == len(passage.names) - 1:
        columns = list(zip(passage.names[1:], values, strict=True))
    elif dash:
        pairs = [part.partition(": ") for part in rest.split("; ")]
        if all(colon and name for name, colon, _ in pairs):  # else a value holds a semicolon, or a name is missing
            columns = [(name, value) for name, _, value in pairs]
    if not columns:
        return passage.text
    return f"{label} — {'; '.join(f'{name}: {value}' for name, value in _asked_columns(question, label, columns))}"


def _asked_columns(question: Question, label: str, columns: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the columns of the years and things that the question asks for; all of them where it names none."""
    dated = [term.word for term in question.terms if term.literal and term.word[0].isdigit()]
    of_date = [column for column in columns if any(_column_holds(word, column[0]) for word in dated)]
    if of_date:
        columns = [column for column in columns if column in of_date or not _DIGIT.search(column[0])]
    topics = [term.word for term in question.terms if not term.literal and not _column_holds(term.word, label)]
    match_counts = [sum(_column_holds(word, name) for word in topics) for name, _ in columns]
    fitting = [column for column, matches in zip(columns, match_counts, strict=True) if matches == max(match_counts)]
    answers = question.wants not in NUMERIC or any(_DIGIT.search(value) for _, value in fitting)
    return fitting if max(match_counts) and answers else columns


def _column_holds(word: str, name: str) -> bool:
    """Return whether a column's name contains `word` of the question, in any case; of digits, as a whole number."""
    lowered = re.sub(r"(?<=\d),(?=\d)", "", name.lower())  # the words of a question hold 1250 for 1,250
    if word[0].isdigit():
        return re.search(rf"(?<!\d){re.escape(word)}(?!\d)", lowered) is not None
    return word in lowered


# Logistic regression (L2, C = 1) on the best sentence of 331 questions: the calibration half of
# tests/rag/questions/answers.jsonl, the half of shared.jsonl for choosing settings, and the questions over the samples,
# which weigh .6 because the rules grew beside them. Cross-validated by document (10 folds), over the 119 questions of
# the calibration half that sentences answer: area under the curve .85 (.68 on shared.jsonl); of the answers from .5 on,
# 24 are right and 8 wrong. With the lead over the next sentence and coverage by headings it was the same within noise.
CONSTANT = -1.6
"""The intercept of `confidence_of`, followed by the weights of its other inputs."""
WRONG_TYPE = -1.5
OPEN_TYPE = -0.4
IN_TEXT = 2.3
FOCUS_IN_TEXT = 1.0
NOWHERE = -1.6
MISSING = -1.4
OTHER_PERIOD = -0.5
FIRST_HIT = 1.0
OF_SEVERAL = 1.5
"""How much more a passage's share of the question counts when it is about one of several things asked about."""


class Evidence(NamedTuple):
    """The inputs from which `confidence_of` estimates whether a sentence is right."""

    wrong_type: bool
    """Whether the sentence lacks the type of answer that is asked for: a date, a person, money …"""
    open_type: bool
    """Whether the question asks for no type that could be checked."""
    in_text: float
    """Share of the question's words, by rarity, in the sentence: 0 … 1."""
    focus_in_text: float
    """Share of the words that name what is asked for, by rarity, in the sentence: 0 … 1."""
    nowhere: float
    """Share of the question's words, by rarity, that neither sentence, headings, document name nor passage hold."""
    missing: bool
    """Whether a name, year or number of the question stands nowhere around the sentence."""
    other_period: bool
    """Whether the sentence is about another year than the question."""
    first_hit: float
    """1 for the passage that was found first, 1/2 for the second …"""


def evidence_of(scored: Scored, question: Question, *, several: bool = False) -> Evidence:
    """Return the evidence of a scored passage; several: it is on one of several things, and need not name the rest."""
    share = OF_SEVERAL if several else 1.0
    return Evidence(
        wrong_type=not scored.answers_kind,
        open_type=question.wants == "text",
        in_text=min(1.0, share * scored.in_text),
        focus_in_text=scored.focus_in_text,
        nowhere=scored.nowhere if not several else max(0.0, 1 - share * (1 - scored.nowhere)),
        missing=any(not several or any(sign.isdigit() for sign in word) for word in scored.missing),
        other_period=scored.other_period and not several,
        first_hit=1 / (1 + scored.passage.hit) if not several else 1.0,
    )


def confidence_of(evidence: Evidence) -> float:
    """Return the probability that the sentence is right, 0 … 1, by the logistic regression above."""
    logit = CONSTANT + WRONG_TYPE * evidence.wrong_type + OPEN_TYPE * evidence.open_type
    logit += IN_TEXT * evidence.in_text + FOCUS_IN_TEXT * evidence.focus_in_text + NOWHERE * evidence.nowhere
    logit += MISSING * evidence.missing + OTHER_PERIOD * evidence.other_period + FIRST_HIT * evidence.first_hit
    return 1 / (1 + math.exp(-logit))
