"""Scores how well passages answer a question, by its words and by the type of answer that it asks for."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tasks.language.marks import drop_marks
from tasks.language.tokens import BIGRAM, FUNCTION_WORDS, HANGUL, tokenize
from tasks.rag.answering.passages import Passage
from tasks.rag.answering.question_reading import LOOKS, NUMBER, NUMBER_WORDS, REASON, Question, Term
from tasks.rag.retrieval.search import Hit

_OPENS_ITEM = re.compile(r"^\s*(?:[-○●□■▪▶◦·•*※]\s*)?[(（]?\d{1,3}(?:[.-]\d{1,3})*[.)）]+\s")
_ASKS_YEAR = re.compile(r"\b(?:what|which) year\b|몇\s?년도?|어느 해", re.IGNORECASE)
_ASKS_HOUR = re.compile(r"\bwhat time\b|몇\s?시", re.IGNORECASE)
MOST_WORDS_BETWEEN = 3
"""Most words between a number and what it counts: `214 company-operated retail stores`."""


def has_answer_type(question: Question, passage: Passage) -> bool:
    """Return whether the passage holds an answer of the asked type; true where any type will do, false for `writer`."""
    text = drop_marks(passage.text)
    match question.wants:
        case "number":
            return bool(new_numbers(question, passage.text) or NUMBER_WORDS.search(passage.text))
        case "money":
            if any(_other_numbers(question, match.group()) for match in LOOKS["money"].finditer(text)):
                return True
            # a table says the currency once, above its numbers
            rest = LOOKS["counted"].sub(" ", LOOKS["percent"].sub(" ", text))
            return (passage.is_row or bool(passage.unit)) and bool(new_numbers(question, rest))
        case "percent":
            matches = LOOKS["percent"].finditer(text)
            if any(_other_numbers(question, match.group()) or match["word"] for match in matches):
                return True
            around = f"{passage.unit} {f'{passage.before} {text}' if passage.is_row else ''}"
            return bool(LOOKS["percentages"].search(around)) and bool(new_numbers(question, text))
        case "count":
            return _has_count(question, passage)
        case "date":
            return _has_date(question, text)
        case "who" | "where":
            return _has_name(question, passage)
        case "list":
            return passage.is_list or bool(LOOKS["enumerates"].search(text))
        case "definition":
            return bool(LOOKS["defines"].search(text))
        case "why":
            return bool(REASON.search(text))
        case "yesno":
            return yes_or_no(question, text) is not None
        case "writer":
            return False
        case _:
            return True


def new_numbers(question: Question, text: str) -> list[str]:
    """Return the quantities that are not in the question: no dates, no numbers of items, notes and pages."""
    body = LOOKS["calendar"].sub(" ", LOOKS["reference"].sub(" ", _OPENS_ITEM.sub("", text)))
    return _other_numbers(question, body)


def yes_or_no(question: Question, text: str) -> bool | None:
    """Return whether a sentence affirms; None if it may deny, or if the question denies or is no yes-or-no question."""
    denies = (LOOKS["negates"], LOOKS["may_deny"])
    question_denies = any(pattern.search(question.text.lower()) for pattern in denies)
    if question.wants != "yesno" or question_denies or LOOKS["may_deny"].search(text):
        return None
    return LOOKS["negates"].search(text) is None


def has_counted_number(question: Question, passage: Passage) -> bool:
    """Return whether the passage has a number of what is counted in Korean: `158개소` for 몇 개소; else False."""
    counter = question.counter
    if not counter or (not HANGUL.search(counter) and counter.isascii()):
        return False
    counted = rf"(?:\d|[십백천만억])\s?(?:여\s?)?{re.escape(counter)}"  # 158개소, 3천 명, 20여 대
    return bool(re.search(counted, passage.text)) or counter in passage.unit or counter in passage.before


def _other_numbers(question: Question, text: str) -> list[str]:
    """Return the numbers of a text that are not in the question."""
    numbers = (match.group().replace(",", "") for match in NUMBER.finditer(text))
    return [number for number in numbers if number not in question.numbers]


def _has_count(question: Question, passage: Passage) -> bool:
    """Return whether a number stands before what is counted, or in a row whose label or table names it."""
    numbers = new_numbers(question, passage.text) or NUMBER_WORDS.search(passage.text)
    if not numbers or not question.counter:
        return bool(numbers)
    if HANGUL.search(question.counter):
        in_row = passage.is_row and question.counter in f"{passage.text} {passage.above}"
        return has_counted_number(question, passage) or in_row
    around = f"{passage.before} {passage.above} {passage.unit}" if passage.is_row else ""
    stem = re.escape(question.counter[: max(3, len(question.counter) - 1)])  # stores and store
    number = rf"(?:\d[\d,.]*|{NUMBER_WORDS.pattern})(?:\s(?:million|thousand|billion))?"
    after = rf"{number}\s(?:[\w’'-]+\s){{0,{MOST_WORDS_BETWEEN}}}{stem}"
    labelled = re.search(rf"\b{stem}", f"{passage.text} {around}", re.IGNORECASE) if passage.is_row else None
    return bool(labelled or re.search(after, passage.text, re.IGNORECASE))


def _has_date(question: Question, text: str) -> bool:
    """Return whether the text has the day, hour or year that is asked for, beyond those of the question."""
    if _ASKS_HOUR.search(question.text):
        return any(_other_numbers(question, match.group()) for match in LOOKS["hour"].finditer(text))
    matches: Iterator[re.Match[str]] = LOOKS["day"].finditer(text)
    if any(_other_numbers(question, match.group()) or not re.search(r"\d", match.group()) for match in matches):
        return True
    years = (match for match in LOOKS["year"].finditer(text) if match["year"] not in question.numbers)
    # "what year" is answered by a bare year, "when" only by one with a word before it: in 2023, since 2019
    return any(_ASKS_YEAR.search(question.text) or match["said"] for match in years)


def _has_name(question: Question, passage: Passage) -> bool:
    """Return whether the passage names a person, an organisation, a role or a place that the question does not name."""
    question_text = question.text.lower()
    kind = "korean_who" if question.wants == "who" else "korean_where"
    text = drop_marks(passage.text)
    names = [match.group() for match in LOOKS["name"].finditer(text)]
    names += [match.group() for match in LOOKS[kind].finditer(text)]
    if question.wants == "who":
        names += [match.group() for match in LOOKS["role"].finditer(text)]
    return any(any(word.lower() not in question_text for word in name.split()) for name in names)


# how much of a word's weight counts by where it stands
IN_TEXT, ABOVE, BEFORE, IN_NAME, IN_CHUNK, IN_DOCUMENT = 1.0, 0.8, 0.7, 0.8, 0.5, 0.3

FOCUS_WEIGHT = 0.5
KIND_WEIGHT = 0.35
RANK_WEIGHT = 0.3
LABEL_WEIGHT = 0.5
LEAST_LABEL = 0.5
"""Share of the question that a title opens with if it is a line of a form, and states the value of that label."""
LEAST_RARITY = 0.2
STRANGE_PENALTY = 0.3
"""Penalty of a passage without any word of the question: it answers only together with what stands around it."""
MISSING_PENALTY = 0.3
"""Penalty of a passage with a name, year or number of the question nowhere near it."""
LABEL_PENALTY = 1.0
LENGTH_PENALTY = 0.1
"""Penalty for each doubling of a passage beyond LONG_CHARS."""
LONG_CHARS = 200
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d|[,.]\d)")  # no year: 2023 of 2023,5 and 20231
_ENDS_SENTENCE = re.compile(r"(?:\b[a-z]\S*|[가-힣])[.?!]$|[다요까]$")
_TERM = re.compile(r"[^:：.]{1,60}(?=[:：]\s)")
"""The term that a line of a glossary explains: what stands before its colon."""
MOST_LINE_CHARS = 80
"""Longest line of text that may be a row of a table that has lost its lines."""


class Scored(NamedTuple):
    """A passage with its scores for one question."""

    passage: Passage
    score: float
    """The score by which passages are ranked; higher answers better, comparable within one question."""
    coverage: float
    """Share of the question's words, by weight, that stand in the passage or lead to it: 0 … 1."""
    focus: float
    """Share of the words that name what is asked for, 0 … 1; where these are unknown, of all words but names."""
    answers_kind: bool
    """Whether the passage holds the type of answer asked for, beyond what the question says itself."""
    terms: frozenset[int]
    """Positions of the question's words that stand in the passage itself."""
    missing: tuple[str, ...]
    """Names, years and numbers of the question that stand nowhere around the passage."""
    in_text: float = 0.0
    """Share of the question's words, by weight, that stand in the passage itself: 0 … 1."""
    nowhere: float = 0.0
    """Share of the question's words, by weight, that neither the passage nor its page says: 0 … 1."""
    other_period: bool = False
    """Whether the passage is about other years than the question, or nothing around it names the question's years."""
    focus_in_text: float = 0.0
    """Share of the words that name what is asked for in the passage itself: 0 … 1."""


def score_passages(question: Question, hits: Sequence[Hit], passages: Sequence[Passage]) -> list[Scored]:
    """Return each passage with its scores, in the given order."""
    reader = _Reader(question.terms)
    around = _Surroundings(reader, hits, passages)
    terms_of = [reader.words_in(passage.text) for passage in passages]
    # a word weighs more, the fewer passages and the fewer surroundings hold it
    rarities = [
        math.sqrt(_rarity(position, terms_of) * _rarity(position, around.contexts))
        for position in range(len(question.terms))
    ]
    weights = [
        term.weight * (LEAST_RARITY + (1 - LEAST_RARITY) * rarity)
        for term, rarity in zip(question.terms, rarities, strict=True)
    ]
    return [_score(question, passage, weights, around) for passage in passages]


def _score(question: Question, passage: Passage, weights: Sequence[float], around: _Surroundings) -> Scored:
    """Return a passage with its scores. weights: of the question's words, in their order."""
    shares = around.shares(passage)
    everywhere = range(len(weights))
    focus = [at for at in everywhere if question.terms[at].focus]
    # names say what the question is about, not what it asks for
    focus = focus or [at for at in everywhere if not question.terms[at].literal]
    coverage = _share(weights, shares, everywhere)
    focus_share = _share(weights, shares, focus)
    label_share = around.label_share(passage, weights)
    is_label = passage.is_label or (passage.is_title and label_share < LEAST_LABEL)
    # what stands behind the very label that is asked for is its value, even if it does not look like one
    is_value = label_share > 0.99 and question.wants in ("number", "who", "where", "definition")
    kind = not is_label and (is_value or has_answer_type(question, passage))
    score = coverage + FOCUS_WEIGHT * focus_share + KIND_WEIGHT * kind
    terms = around.reader.words_in(passage.text_with_context)
    score += LABEL_WEIGHT * label_share * (kind or passage.is_row) - STRANGE_PENALTY * (not terms)
    score += RANK_WEIGHT / (1 + 0.3 * passage.hit)  # a search reads whole chunks, and their meaning
    score -= LABEL_PENALTY * is_label + LENGTH_PENALTY * math.log2(max(len(passage.text), LONG_CHARS) / LONG_CHARS)
    # a number must stand in the chunk or its head, a name anywhere in the document
    missing = tuple(
        term.word
        for term, share in zip(question.terms, shares, strict=True)
        if term.literal and share < (IN_CHUNK if any(sign.isdigit() for sign in term.word) else IN_DOCUMENT)
    )
    score -= MISSING_PENALTY * bool(missing)
    years = [at for at in everywhere if _YEAR.fullmatch(question.terms[at].word)]
    text_years = set(_YEAR.findall(passage.text))
    has_other_years = bool(text_years) and not text_years & {question.terms[at].word for at in years}
    return Scored(
        passage,
        score,
        coverage,
        focus_share,
        kind,
        terms,
        missing,
        in_text=_share(weights, [float(at in terms) for at in everywhere], everywhere),
        focus_in_text=_share(weights, [float(at in terms) for at in everywhere], focus),
        nowhere=_share(weights, [float(share < IN_CHUNK) for share in shares], everywhere),
        other_period=bool(years) and (has_other_years or any(shares[at] < BEFORE for at in years)),
    )


def _share(weights: Sequence[float], shares: Sequence[float], positions: Sequence[int]) -> float:
    """Return the weighted mean of the shares at these positions; 0 where their weights sum to 0."""
    total = sum(weights[position] for position in positions)
    return sum(weights[position] * shares[position] for position in positions) / total if total else 0.0


def _rarity(position: int, texts: Sequence[frozenset[int]]) -> float:
    """Return 0 for a word that all texts hold … 1 for a word that none holds."""
    count, holding = len(texts), sum(position in words for words in texts)
    # BM25's inverse document frequency, as a share of that of a word that no text holds
    return math.log(1 + (count - holding + 0.5) / (holding + 0.5)) / math.log(1 + (count + 0.5) / 0.5)


class _Surroundings:
    """The places around a passage where words of a question stand."""

    def __init__(self, reader: _Reader, hits: Sequence[Hit], passages: Sequence[Passage]) -> None:
        self.reader, self._hits = reader, hits
        self._in_chunk: dict[int, frozenset[int]] = defaultdict(frozenset)
        self._in_document: dict[str, frozenset[int]] = defaultdict(frozenset)
        for passage in passages:
            words = reader.words_in(passage.text) | reader.words_in(passage.before) | reader.words_in(passage.above)
            self._in_chunk[passage.hit] |= words
            self._in_document[hits[passage.hit].chunk.document] |= words
        self.contexts = [terms | reader.held_by_name(hits[hit].document_name) for hit, terms in self._in_chunk.items()]
        """For each chunk, the words that it, its headings or its document's name hold."""

    def shares(self, passage: Passage) -> list[float]:
        """Return, for each word of the question, the share of its weight that counts for this passage."""
        hit = self._hits[passage.hit]
        levels = (
            (IN_TEXT, self.reader.words_in(passage.text)),
            (ABOVE, self.reader.words_in(passage.above)),
            (BEFORE, self.reader.words_in(passage.before)),
            (IN_NAME, self.reader.held_by_name(hit.document_name)),
            (IN_CHUNK, self._in_chunk[passage.hit]),
            (IN_DOCUMENT, self._in_document[hit.chunk.document]),
        )
        return [next((share for share, terms in levels if at in terms), 0.0) for at in range(self.reader.count)]

    def label_share(self, passage: Passage, weights: Sequence[float]) -> float:
        """Return the share of the question in a row's label, times the share of the label in the question: 0 … 1."""
        # what a row begins with, before its values; nothing of a sentence
        label, dash, _ = passage.text.partition(" — ")
        term = _TERM.match(passage.text)
        if term and not passage.is_row:
            label = term[0]
        elif not passage.is_row:
            value = re.search(r"\s[$₩€£(△-]*\d", passage.text)
            label = passage.text[: value.start()] if value else self._opening(passage.text)
            label = label if len(passage.text) <= MOST_LINE_CHARS else ""
        elif not dash:
            label = passage.text.partition(": ")[0]
        words = re.findall(r"[^\W_]+", label)
        if not words:
            return 0.0
        terms_of_words = map(self.reader.words_in, words)
        matched = [terms for terms in terms_of_words if terms]
        weight = sum(weights[at] for at in frozenset[int]().union(*matched))
        return len(matched) / len(words) * weight / (sum(weights) or 1.0)

    def _opening(self, line: str) -> str:
        """Return a line up to its first word that the question lacks; "" for a sentence, or where no word is such."""
        if _ENDS_SENTENCE.search(line):
            return ""
        for word in re.finditer(r"[^\W_]+", line):
            if word.group().lower() not in FUNCTION_WORDS and not self.reader.words_in(word.group()):
                return line[: word.start()]
        return ""


class _Reader:
    """A finder of the question's words in texts, split as the index splits them but without its Korean tokenizer.

    Splitting twelve chunks with kiwi takes longer than all else. So a Korean noun is found by its syllables, and a verb
    by the letters of its stem at the start of a word.
    """

    def __init__(self, terms: Sequence[Term]) -> None:
        self.count = len(terms)
        self._split = {term.word: at for at, term in enumerate(terms) if not HANGUL.search(term.word)}
        self._korean = [(at, term.word) for at, term in enumerate(terms) if HANGUL.search(term.word)]
        self._stems = [(at, re.compile(rf"(?<!\w){re.escape(_letters(word))}")) for at, word in self._korean]
        self._found_in: dict[str, frozenset[int]] = {}

    def words_in(self, text: str) -> frozenset[int]:
        """Return the positions of the question's words that `text` holds."""
        if text not in self._found_in:
            self._found_in[text] = frozenset(self._find(text)) if text else frozenset()
        return self._found_in[text]

    def held_by_name(self, name: str) -> frozenset[int]:
        """Return the positions of the words in a document's name, which may join them: `BESTBUY_2023_10K.pdf`."""
        lowered = name.lower()
        # shorter words and numbers stand inside others by chance
        within = (at for word, at in self._split.items() if len(word) >= 3 and word.isalpha() and word in lowered)
        return self.words_in(name) | frozenset(within)

    def _find(self, text: str) -> Iterator[int]:
        """Yield the positions of the question's words that `text` holds, some of them more than once."""
        if self._split:
            (words,) = tokenize([text], tokenizer=BIGRAM)
            yield from (self._split[word] for word in words if word in self._split)
        if self._korean and HANGUL.search(text):
            plain = re.sub(r"(?<=\d),(?=\d)", "", unicodedata.normalize("NFC", text))
            spaceless = plain.replace(" ", "")
            letters = _letters(plain)
            for (at, word), (_, stem) in zip(self._korean, self._stems, strict=True):
                if len(word) == 1:
                    is_there = re.search(rf"(?<![가-힣]){word}", plain)  # one syllable stands inside too many words
                else:
                    is_there = word in plain or word in spaceless or stem.search(letters)  # spaces are free in Korean
                if is_there:
                    yield at


def _letters(text: str) -> str:
    """Return the text with its syllables taken apart, so that the stem 걸리 is found in 걸린다."""
    return unicodedata.normalize("NFD", text)
