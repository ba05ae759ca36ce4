"""Reads a question: its words, its focus, the type of answer that it asks for, and the one value of a table."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Literal, NamedTuple

from tasks.language.sentences import Language, language_of
from tasks.language.tokens import FUNCTION_WORDS, HANGUL, MYRIADS, drop_compounds, tokenize
from tasks.rag.numbers.cell_search import CELL_WORDS, CHANGE, Alternative, CellQuestion, Unit, Word, unify_spellings
from tasks.rag.numbers.computation_reading import IN_UNIT, asks_to_work_out, writes_formula
from tasks.rag.numbers.concepts import mentions
from tasks.rag.numbers.document_numbers import TERM
from tasks.rag.numbers.expressions import YEARS, find_years
from tasks.rag.numbers.periods import PART_SAID, WHOLE_YEAR, Part, When, part_of_year, write_years_out
from tasks.rag.planning.type_words import compile_filled
from tasks.rag.retrieval.expansion import expand, find_terms

AnswerType = Literal[
    "number", "money", "percent", "count", "date", "who", "where", "yesno", "list", "definition", "why", "writer",
    "text",
]  # fmt: skip
"""The type of answer that a question asks for; `writer`: a text that somebody has to write, such as a summary."""
NUMERIC = frozenset[AnswerType](("number", "money", "percent", "count"))
"""Types whose answer is a number."""

_WORDS = tomllib.loads((files("tasks.rag.answering") / "question_words.toml").read_text("utf-8"))
WANTED = [
    (rule["kind"], compile_filled(rule["asked"], _WORDS["parts"], re.IGNORECASE), "unless_concept" in rule)
    for rule in _WORDS["wanted"]
]
"""Types of answers, each with the pattern of the questions that ask for it, and whether that names no concept of
statements; the first that fits counts."""
LOOKS = {name: compile_filled(sign, _WORDS["parts"]) for name, sign in _WORDS["answers"].items()}
"""What an answer of each type looks like; letter case counts, because names are told by it."""
ASKING = frozenset[str](_WORDS["asking"].split())
"""Words that ask, or that any question may hold, as the index splits them."""
MEASURES = frozenset[str](_WORDS["measures"].split())
"""Units that a question asks for the answer in; a document may not contain them."""
PARTICLES = ("은", "는", "이", "가", "을", "를")
LINKS = re.compile(
    r"(?:의|에서|에는|에서는|에게|에|으로|로|와|과|도|만|까지|부터|보다|처럼|면|고|며|서|한|된|할|될|인|던|는|은|을|를|이|가)$"
)
INTERROGATIVE = re.compile(r"^(?:얼마|몇|무엇|언제|어디|누구|어느|어떤|어떻게|며칠|뭐|무슨)")
COUNTER = re.compile(
    r"몇\s?(?:십|백|천|만|억|백만|십억)?\s?([^\s\d?.,]{1,6}?)(?:인가|입니까|이나|이며|인지|이고|이었|였|까지|이|을|를|에|은|는|의|안|로|씩|\?|\s|$)"
)
HOW_MANY = re.compile(
    r"\bhow many (?:[\w’'-]+ ){0,4}?([a-z-]+)"
    r"(?=\s(?:did|do|does|were|was|are|is|has|have|had|can|could|must|will|would|should|may|of|in|on|at|to|for|from|per|by|there)\b|[?,.]|$)",
    re.IGNORECASE,
)
FOCUS_ASKED = re.compile(
    r"\b(?:what|which|how (?:many|much))\s+(?:(?:is|was|were|are|did|does|do|will)\s+)?(?:the |an? )?"
    r"(?:(?:[A-Z][\w'’&.-]*\s)+(?=(?:spend|earn|make|pay|charge|report|assume|plan)\b)\w+\s(?:on |of |for )?)?"
    r"(?P<focus>[^?]*?)(?=\s(?:of|for|in|at|by|from|to|on|with|was|were|is|are|did|does|do|has|have|per|fell|falls?|given|allowed?)\b|\?|$)",
    re.IGNORECASE,
)
"""An English question word, and behind it the group `focus`: the words that name what is asked for."""

ORDINAL = re.compile(r"(?<![\d.,])(\d{1,4})\s?(분기|기|차|회|호|조|항|장|단계|등급)(?![가-힣]{3})")

NUMBER = re.compile(r"(?<![A-Za-z\d.-])(?<![A-Za-z][-_])\d[\d,]*(?:\.\d+)?")  # not 002 of SFR-002
NUMBER_WORDS = re.compile(
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thir?teen|fifteen|twenty|thirty|forty|fifty|"
    r"sixty|seventy|eighty|ninety|hundred|thousand|half|third|quarter|none|no)\b|"
    r"(?<![가-힣])(?:한|두|세|네|다섯|여섯|일곱|여덟|아홉|열)\s(?:개|곳|명|번|대|차례|가지|종|달|해|회|사람|군데)|절반",
    re.IGNORECASE,
)

REASON = re.compile(
    r"\b(?:because|due to|driven|as a result|owing|caused?|reasons?|since|led|attribut\w+|reflect\w*|so that"
    r"|in order)\b|때문|인하여|인해|위하여|위해|따라|이유|원인|므로|어서|아서|탓|결과",
    re.IGNORECASE,
)

MOST_QUESTION_CHARS = 2_000
"""Characters of a question that are read when sentences are scored."""
MOST_WORDS = 64
"""Most words of a question that are looked for."""
_KOREAN_YEAR = re.compile(r"(?:19|20)\d\d년")


class Term(NamedTuple):
    """A word of the question that evidence may hold."""

    word: str
    """The word as the index splits words."""
    weight: float
    """Weight of the word in the question, before its rarity in the index is known."""
    focus: bool
    """Whether it names what is asked for, and not only what it is asked about."""
    literal: bool
    """Whether it stands for something that has no other word: a number, a year, an id, a name."""


class Question(NamedTuple):
    """A question as passages are scored against it."""

    text: str
    language: Language
    terms: tuple[Term, ...]
    wants: AnswerType
    counter: str
    """What is counted: `개소` of 몇 개소, the stem of `stores` of how many stores; empty if nothing is counted."""
    numbers: frozenset[str]
    """Numbers of the question, which cannot be its answer."""


def read_question(text: str, *, tokenizer: str) -> Question:
    """Return the question, cut at 2,000 characters, for scoring; tokenizer: the index's. Raises WrongTokenizer."""
    # decomposed Hangul has two or three signs a syllable, so more is read before it is composed
    short = unicodedata.normalize("NFC", text[: 2 * MOST_QUESTION_CHARS])[:MOST_QUESTION_CHARS]
    question = expand(" ".join(short.split())).question
    for short_form, long_form in _WORDS["short_forms"]:
        question = re.sub(rf"\b{short_form}\b", long_form, question)
    focus_text = _find_korean_focus(question.rstrip(" ?.").split())
    if language_of(question) == "en":
        match = FOCUS_ASKED.search(question)
        focus_text = match["focus"] if match else ""
    words, focus_words = tokenize([question, focus_text], tokenizer=tokenizer)
    # 20기 of 제20기 is one word, and the digits of an amount in myriads are none: 13 and 8 of 13억 8천만
    ordinals = {digits: f"{digits}{counter}" for digits, counter in ORDINAL.findall(question)}
    in_amounts = {digits for amount in MYRIADS.findall(question) for digits in re.findall(r"\d+(?:\.\d+)?", amount)}
    words = _restore_names(drop_compounds(words), question)  # kiwi cuts names that it does not know
    words = [ordinals.get(word, word) for word in words if word in ordinals or word not in in_amounts]
    focus = frozenset([*focus_words, *_restore_names(drop_compounds(focus_words), focus_text)])
    # what is counted: 개소 of 몇 개소, the stem of `stores` of how many stores
    korean, english = COUNTER.search(question), HOW_MANY.search(question)
    counter = korean[1] if korean else ""
    if english and not counter:
        counter = next(iter(tokenize([english[1]], tokenizer=tokenizer)[0]), "")
    return Question(
        text=question,
        language=language_of(question),
        terms=_weigh_terms(list(dict.fromkeys(words)), question, focus, tokenizer),
        wants=find_answer_type(question),
        counter=counter,
        numbers=frozenset(re.findall(r"\d+(?:\.\d+)?", question.replace(",", ""))),
    )


def find_answer_type(question: str) -> AnswerType:
    """Return the type of answer that a question asks for; `text` where no other fits."""
    kinds = (
        kind for kind, asked, no_concept in WANTED if asked.search(question) and not (no_concept and mentions(question))
    )
    return next(kinds, "text")


def asks_to_explain(question: str) -> bool:
    """Return whether a question asks what something is, means or is related to, which no number tells."""
    return find_answer_type(question) == "definition" and not writes_formula(question)


def _weigh_terms(words: Sequence[str], question: str, focus: frozenset[str], tokenizer: str) -> tuple[Term, ...]:
    """Return up to MOST_WORDS words of a question with their weights, without words that ask and parts of ids."""
    # words that are written as names: a capital letter within the sentence, or all capitals
    capitalised = re.findall(r"(?<![.?!:] )(?<=[^\s]\s)(?:[A-Z][\w'’-]*)|\b[A-Z]{2,}\b", question)
    latin = [word for word in capitalised if word.lower() not in FUNCTION_WORDS]
    names = {word for split in tokenize(latin, tokenizer=tokenizer) for word in split}
    # parts of an id, or of a number with its counter, that say less alone: 002 of sfr-002, 12 of 12개월
    parts_of_ids = {
        part
        for word in words
        if any(sign.isdigit() for sign in word) and not _KOREAN_YEAR.fullmatch(word)
        for part in re.findall(r"[^\W\d_]+|\d+(?:\.\d+)?", word)
        if part != word
    }
    terms: dict[str, Term] = {}
    for word in words:
        if word in ASKING or word in parts_of_ids or _KOREAN_YEAR.fullmatch(word):
            continue
        literal = any(sign.isdigit() for sign in word) or word in names
        weight = 0.3 if word in MEASURES or len(word) == 1 else 1.3 if literal else 1.0
        terms.setdefault(word, Term(word, weight, word in focus and word not in names, literal))
    return tuple(terms.values())[:MOST_WORDS]


def _restore_names(words: Sequence[str], question: str) -> list[str]:
    """Return the words with names restored that the tokenizer split: 재공고 for `공고`, 가온시."""
    mended = list(words)
    for run in dict.fromkeys(re.findall("[가-힣]{2,}", question)):
        parts = [word for word in words if HANGUL.search(word) and word in run]
        covered = {at for word in parts for at in range(run.find(word), run.find(word) + len(word))}
        if (
            not covered
            or (len(parts) == 1 and len(parts[0]) == 1)
            or len(covered & set(range(max(covered)))) == max(covered)  # without a gap: nothing was cut
        ):
            continue
        whole = run[: max(covered) + 1]
        first = min(mended.index(part) for part in parts if part in mended) if set(parts) & set(mended) else len(mended)
        mended = [word for word in mended if word not in parts]
        mended.insert(first, whole)
    return mended


def _find_korean_focus(spaced: Sequence[str]) -> str:
    """Return what is asked for: the words behind 어느 or 어떤, else the last phrase before the question; or ""."""
    question_word = next((at for at, word in enumerate(spaced) if INTERROGATIVE.match(word)), len(spaced))
    if question_word < len(spaced) and re.match("(?:어느|어떤|무슨)$", spaced[question_word]):
        return " ".join(spaced[question_word + 1 :])
    before = range(min(question_word, len(spaced)) - 1, -1, -1)
    last = next((at for at in before if len(spaced[at]) > 1 and spaced[at].endswith(PARTICLES)), None)
    if last is None:
        return spaced[-1] if spaced and question_word == len(spaced) else ""
    first = last
    while first and last - first < 3 and not LINKS.search(spaced[first - 1]):  # nouns without a particle stand in a row
        first -= 1
    return " ".join(spaced[first : last + 1])


CELL_ASKING = frozenset[str](CELL_WORDS["asks"].split())
"""Words that ask for a value and are no part of its name."""
KOREAN_ASKS = frozenset[str](CELL_WORDS["korean_asks"].split())
UNITS: Mapping[Unit, re.Pattern[str]] = {
    "%": re.compile(CELL_WORDS["unit"]["percent"], re.IGNORECASE),
    "count": re.compile(CELL_WORDS["unit"]["count"], re.IGNORECASE),
    "amount": re.compile(CELL_WORDS["unit"]["amount"], re.IGNORECASE),
}
"""What a question wants its value in; the first pattern that fits counts."""
NAMES_MONEY, NAMES_COUNT = (re.compile(CELL_WORDS["names"][name], re.IGNORECASE) for name in ("money", "count"))
YEAR_SAID = re.compile(rf"(?<![a-z\d]){YEARS}(?!\d)", re.IGNORECASE)
NO_FIGURE = re.compile(CELL_WORDS["no_figure"], re.IGNORECASE)
"""Words of a question for something else than a value."""
LINK = re.compile(r"\b(?:of|in|at|on|for|by|from|to|with)\b", re.IGNORECASE)
WEAK = frozenset[str](CELL_WORDS["weak"].split())
"""Words that say little of which value is meant; they count WEAK_WEIGHT."""
WEAK_WEIGHT = 0.5
FOCUS_WEIGHT = 1.3
NAME_WEIGHT = 1.3
BESIDE_WEIGHT = 0.25
MOST_CHARS = 400
"""Most characters of a question that is read for a value."""


def read_cell_question(question: str, *, tokenizer: str, names: Sequence[str] = ()) -> CellQuestion | None:
    """Return the question as cells are scored against it; None if it is long or asks for anything but one value.

    names: what the question calls the documents, as it writes them. Raises WrongTokenizer.
    """
    text = unify_spellings(expand(write_years_out(" ".join(question.split()))).question)
    part = part_of_year(text)
    years = find_years(text)
    terms = {match[1] for match in TERM.finditer(text)}
    if len(text) > MOST_CHARS or part is None or max(len(years), len(terms)) > 1:
        return None  # two years ask for a comparison, which no single cell answers
    if NO_FIGURE.search(text) or asks_to_work_out(text):
        return None
    return _build_question(text, text, part, years, terms, tokenizer=tokenizer, names=names)


def phrase_question(
    words: str, more_words: str, question: str, when: When | None, *, tokenizer: str
) -> CellQuestion | None:
    """Return words of a question as a question for their value; None without words. Raises WrongTokenizer.

    more_words: other words of the question, which count less. question: the whole of it. when: the period; None for the
    one that the whole question names, if any.
    """
    part, years, terms = part_of_year(question) or WHOLE_YEAR, find_years(question), set(TERM.findall(question))
    if when:
        part, years, terms = when.part, (when.year,), set[str]()
    years = years if len(years) == 1 else ()
    terms = terms if len(terms) == 1 else set[str]()
    own = _build_question(words, words, part, years, terms, tokenizer=tokenizer, names=())
    more = _build_question(more_words, more_words, part, (), set(), tokenizer=tokenizer, names=())
    if own is None or more is None:
        return own
    own_words = {word.text for word in own.words}
    further = [Word(word.text, word.weight * BESIDE_WEIGHT) for word in more.words if word.text not in own_words]
    # what the name of a figure says that it counts: 사업비 is money, 어르신 수 is none
    return own._replace(
        core=f"{own.core} {more.core}",
        words=(*own.words, *further),
        unit=("amount" if NAMES_MONEY.search(words) else "count" if NAMES_COUNT.search(words) else ""),
    )


def _build_question(
    question: str,
    value_words: str,
    part: Part,
    years: Sequence[int],
    terms: set[str],
    *,
    tokenizer: str,
    names: Sequence[str],
) -> CellQuestion | None:
    """Return the question for scoring cells, None if no word names a value; value_words: those that say which."""
    # what is asked for, without documents, periods, units and words that ask
    core = value_words
    for name in sorted(names, key=len, reverse=True):
        loosely = r"[\s-]+".join(map(re.escape, re.split(r"[\s-]+", name)))  # it may be written with hyphens for spaces
        core = re.sub(rf"(?:\bthe\s+)?{loosely}(?:['’]s\b)?", " ", core, flags=re.IGNORECASE)
    core = YEAR_SAID.sub(" ", PART_SAID.sub(" ", TERM.sub(" ", IN_UNIT.sub(" ", core))))
    core = re.sub(r"['’]s\b|[()?,;:]|\.(?!\w)", " ", core)
    core = " ".join(word for word in core.split() if word.lower() not in CELL_ASKING or LINK.fullmatch(word))
    words = tuple(_weigh_words(question, core, tokenizer))
    core = " ".join(LINK.sub(" ", core).split())
    units: list[Unit] = [unit for unit, pattern in UNITS.items() if pattern.search(question)]
    if not words:
        return None
    return CellQuestion(
        text=question,
        core=core,
        words=words,
        alternatives=tuple(_list_alternatives(core, tokenizer)),
        year=years[0] if years else None,
        part=part,
        term=f"제{terms.pop()}기" if terms else "",
        unit=units[0] if units else "",
        change=CHANGE.search(core) is not None,
    )


def _weigh_words(question: str, core: str, tokenizer: str) -> Iterator[Word]:
    """Yield the question's words that stand in `core`, what is left of it without documents, periods and units.

    Each is weighed by its kind (name, focus, other), not by how rare it is. Raises WrongTokenizer.
    """
    first = LINK.split(core, maxsplit=1)[0]
    core_words, begin = map(frozenset, tokenize([core, first], tokenizer=tokenizer))
    run = "".join(core.split())
    terms = read_question(question, tokenizer=tokenizer).terms
    if not any(term.focus for term in terms):  # a question of catchwords begins with what it asks for
        terms = [term._replace(focus=term.word in begin and not term.literal) for term in terms]
    for term in terms:
        word = term.word
        is_in_core = word in core_words or (HANGUL.search(word) is not None and word in run)
        if is_in_core and word not in KOREAN_ASKS and not word.isdigit() and (len(word) > 1 or HANGUL.search(word)):
            weight = NAME_WEIGHT if term.literal else FOCUS_WEIGHT if term.focus else term.weight
            yield Word(word, weight if word not in WEAK else WEAK_WEIGHT, term.literal, term.focus)


def _list_alternatives(core: str, tokenizer: str) -> Iterator[Alternative]:
    """Yield other names of the lines that the question names."""
    concepts = [(core[mention.start : mention.end], mention.concept.names) for mention in mentions(core)]
    for text, names in concepts + find_terms(core):
        words, *phrases = tokenize([text, *names], tokenizer=tokenizer)
        yield Alternative(frozenset(words), tuple(map(frozenset, phrases)))
