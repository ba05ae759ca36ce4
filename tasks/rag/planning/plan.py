"""Plans how a question is looked up: its type, the strategy, the number of chunks and the documents.

The type is a model's label, else follows from the words of the question (`type_words`), else from the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from pydantic import JsonValue, ValidationError

from models.embedders import reads_script
from tasks.rag.answers import Answered, Filters, QueryType, RetrievalPlan, RouteMode, Turn
from tasks.rag.planning.names import without_qualifiers
from tasks.rag.planning.type_words import CONVERSATION, PRECEDENCE, match_rules, normalise, without_particles

TOPIC_TURNS = 5
"""Turns that are searched for the topic of a conversation."""

SHORT_CHARS = 24
"""Length up to which a question that names no document is taken for a follow-up."""
SURE_NAME = 0.6
"""Confidence from which a name in a follow-up replaces the documents of the last turn."""

ALL = Filters()


class Classified(NamedTuple):
    """The type of a question, and what decided it."""

    query_type: QueryType
    words: tuple[str, ...]
    """Words of the question that indicate the type."""
    decided_by: Literal["words", "history", "default"]


class Look(NamedTuple):
    """The search settings of a type of question."""

    strategy: str
    top_k: int
    needs_multi_doc: bool


LOOKS: dict[QueryType, Look] = {
    "compare": Look("rrf", 12, needs_multi_doc=True),  # the seed's limit, which the sides of a comparison share
    "multi": Look("rrf", 10, needs_multi_doc=True),
    "followup": Look("similarity", 6, needs_multi_doc=False),  # within the documents of the last turn
    "single": Look("similarity", 8, needs_multi_doc=False),  # without a model 12 are right more often than 5
}


def make_plan(
    question: str,
    *,
    history: Sequence[Turn] = (),
    label: QueryType | None = None,
    filters: Filters = ALL,
    strategy: str | None = None,
    top_k: int | None = None,
    similarity_alone: bool = True,
) -> RetrievalPlan:
    """Return the plan for a question.

    label: the type that a model chose, which wins over the words. strategy, top_k: the user's, which win over those of
    the type. similarity_alone: False replaces the strategy `similarity` by `rrf`.
    """
    turns = () if is_reset(question) else history
    by_words = classify_by_words(question, history=turns, names_documents=_names_documents(filters))
    query_type = label or by_words.query_type
    look = LOOKS[query_type]
    if query_type == "followup":
        mode: RouteMode = "prefer" if label is None and by_words.decided_by == "history" else "only"
        filters = narrow_filters(filters, turns, mode=mode)
    return RetrievalPlan(
        query_type=query_type,
        strategy=strategy or (look.strategy if similarity_alone else "rrf"),
        top_k=top_k or look.top_k,
        needs_multi_doc=look.needs_multi_doc,
        filters=filters,
        decided_by="model" if label else by_words.decided_by,
        words=by_words.words if query_type == by_words.query_type else (),
    )


def classify_by_words(question: str, *, history: Sequence[Turn], names_documents: bool = False) -> Classified:
    """Return the type that the words show; a short question in a conversation that names no document is a follow-up."""
    fired = match_rules(question)
    short = bool(history) and not names_documents and 0 < len(normalise(question)) <= SHORT_CHARS
    for query_type in PRECEDENCE:
        words = tuple(dict.fromkeys(rule.word for rule in fired if rule.query_type == query_type))
        if words:
            return Classified(query_type, words, "words")
        if query_type == "followup" and short:
            return Classified("followup", (), "history")
    return Classified("single", (), "default")


def similarity_alone(embedder_id: str, question: str) -> bool:
    """Return whether similarity alone may look up single questions and follow-ups, as in the seed.

    False for the small models that come with a package, which then find far fewer pages than with BM25 beside them
    (README), and for a script that the embedder cannot read.
    """
    return reads_script(embedder_id, question) and not embedder_id.startswith(("minilm@", "e5@"))


def narrow_filters(filters: Filters, history: Sequence[Turn], *, mode: RouteMode = "only") -> Filters:
    """Return the documents of the last turn that has any, or those among them that a vague name means.

    The filters stay as they are where the question names documents surely, or no turn has any.
    """
    last = next((turn.documents for turn in reversed(history) if turn.documents), ())
    if not last or filters.mode == "only" or _names_documents(filters):
        return filters
    among = tuple(document for document in last if document in filters.documents) or last
    return Filters(mode=mode, documents=among, matches=filters.matches, groups=(among,))


def _names_documents(filters: Filters) -> bool:
    """Return whether the question itself names documents."""
    return any(match.confidence >= SURE_NAME for match in filters.matches)


_RESET = re.compile(CONVERSATION["reset"], re.VERBOSE)


def is_reset(question: str) -> bool:
    """Return whether the question opens a new conversation: `새 질문: …`, `start over`."""
    return _RESET.match(normalise(question)) is not None


_NAMES: dict[QueryType, str] = {
    "single": "single 단일",
    "multi": "multi multiple 다중 복수",
    "compare": "compare comparison 비교",
    "followup": "followup 후속",
}
_LABELS: dict[str, QueryType] = {name: query_type for query_type, names in _NAMES.items() for name in names.split()}
_LABEL = re.compile(rf"(?<![a-z가-힣])(?:{'|'.join(_LABELS)})(?![a-z]|적)")
_MOST_ANSWER_CHARS = 2_000


def parse_label(text: str) -> QueryType | None:
    """Return the one type that a model's answer names, as a word, in quotes or in JSON; None for none or several."""
    answer = re.sub(r"follow[\s_-]*up", "followup", normalise(text)[:_MOST_ANSWER_CHARS])
    # the value of the type's key where the answer is JSON
    value = re.search(r"""["'](?:query_type|type|label|class|유형)["']\s*:\s*["']([^"']*)["']""", answer)
    labels: set[QueryType] = {_LABELS[match.group()] for match in _LABEL.finditer(value[1] if value else answer)}
    return labels.pop() if len(labels) == 1 else None


def standalone_question(question: str, history: Sequence[Turn], *, filters: Filters = ALL) -> str:
    """Return the question with what it leaves to the conversation: the last topic, or the last point if it names one.

    `그럼 마감일은?` after `가람시의 사업 예산은?` gets 가람시의.
    `그럼 나래시는?` gets 사업 예산은, where `filters` hold 나래시.
    """
    if not history or is_reset(question):
        return question
    last = history[-1].question
    earlier = history[-TOPIC_TURNS:-1]
    if earlier and classify_by_words(last, history=earlier).query_type == "followup":
        last = standalone_question(last, earlier)
    moved = _move_to_period(question, last)
    if moved is not None:
        return moved
    topic, point = _topic_and_point(last)
    forms = {form for word in normalise(question).split() for form in without_particles(word)}
    # does it hold only a name, a year or a round?
    rest = normalise(question)
    for match in filters.matches:
        rest = rest.replace(normalise(match.said), " ")
    words = [word for word in re.findall(r"[\w가-힣]+", without_qualifiers(rest)) if word not in _EMPTY]
    if not filters.matches or any(len(word) > 2 or not re.fullmatch("[가-힣]+", word) for word in words):
        return " ".join([*_select_lacking(topic, forms), question])
    names_document = any(match.field not in QUALIFIER_FIELDS for match in filters.matches)
    lacking = [] if names_document else _select_lacking(topic, forms)
    return " ".join([*lacking, question, *_select_lacking(point, forms)])


_PERIOD_BEFORE = re.compile(
    r"\b(?:the )?(?:year|quarter|period|one)s? before\b"
    r"|\b(?:prior|previous|preceding|last) (?:fiscal )?(?:year|quarter|period)"
    r"|(?<![가-힣])(?:그 |바로 )?(?:전|이전|직전) ?(?:해|년도?|연도|기|분기|회기)(?![가-힣]*동기)|전년도?|작년|전기에"
)
_PERIOD_SAID = re.compile(r"(?P<year>(?<!\d)(?:19|20)\d\d(?!\d))|(?P<term>제\s?\d+\s?기)")
_BESIDE_A_PERIOD = re.compile(r"(?:년도?)?(?:에는|에|엔|는|은|것은)?|fy|fiscal|years?|please")


def _move_to_period(question: str, last: str) -> str | None:
    """Return the last question with another year or term; None if that has none, or the follow-up asks for more."""
    text = normalise(question)
    before, last_periods = _PERIOD_BEFORE.search(text), list(_PERIOD_SAID.finditer(last))
    match = before or _PERIOD_SAID.search(text)
    if not match or not last_periods:
        return None
    rest = re.findall(r"[\w가-힣]+", f"{text[: match.start()]} {text[match.end() :]}")
    if [word for word in rest if word not in _EMPTY and not _BESIDE_A_PERIOD.fullmatch(word)]:
        return None
    latest = max(last_periods, key=lambda period: int(re.sub(r"\D", "", period.group())))
    if before:
        replacement = re.sub(r"\d+", lambda number: str(int(number.group()) - 1), latest.group())
    elif len(last_periods) == 1 and match.lastgroup == latest.lastgroup:
        replacement = match.group()
    else:
        return None  # which of several is meant, nobody knows
    return last[: latest.start()] + replacement + last[latest.end() :]


QUALIFIER_FIELDS = frozenset(["year", "round"])
"""Fields of matches that qualify a name and are none themselves."""


def _select_lacking(words: list[str], forms: set[str]) -> list[str]:
    """Return the words that are in no form among `forms`."""
    return [word for word in words if not forms & {*without_particles(word.lower())}]


_EMPTY = frozenset(CONVERSATION["openers"].split())
_ASKING_WORDS = frozenset(CONVERSATION["asking"].split())


def _topic_and_point(question: str) -> tuple[list[str], list[str]]:
    """Return the words that name the topic, and those that say what is asked about it.

    Korean: up to the last genitive, else to the last 은, 는, 이 or 가. English: names, and what follows `of`.
    """
    words = re.sub(r"[?!,;:\"“”]|\.(?=\s|$)", " ", question).split()
    if sum(bool(re.search("[가-힣]", word)) for word in words) * 2 >= len(words):
        words = words[1:] if words and words[0] in _EMPTY else words
        genitives = [at for at, word in enumerate(words) if re.fullmatch(r".*(?:의|에서|에서의)", word)]
        marked = [at for at, word in enumerate(words) if at and re.fullmatch(r".*[은는이가]", word)]
        end = marked[-1] if marked else 1
        if genitives and genitives[-1] + 1 < len(words):
            end = genitives[-1] + 1
        return words[:end], words[end:]
    names = {at for at, word in enumerate(words) if at and (word[0].isupper() or re.search(r"\d{4}|\d[A-Z]", word))}
    link = next((at for at, word in enumerate(words) if word.lower() in {"of", "for", "about", "by"}), len(words))
    topic, point = list[str](), list[str]()
    for at, word in enumerate(words):
        if word.lower() not in _ASKING_WORDS:
            (topic if at in names or at >= link else point).append(word)
    return topic, point


MOST_PARTS = 4
"""Most questions that one question is split into."""
FEWEST_WORDS = {"ko": 2, "en": 3}
"""Words below which a part is incomplete without the others."""

_ENGLISH_JOINT = re.compile(
    r"(?:,?\s+and\s+|;\s+(?:and\s+)?|\?\s+(?:and\s+)?)"
    r"(?=(?:what|how|when|where|who|whom|whose|which|why|does|do|did|is|are|was|were)\b)",
    re.IGNORECASE,
)
_ENGLISH_ASKS = re.compile(
    r"\b(?:what|how|when|where|who|whom|whose|which|why)\b|^(?:does|do|did|is|are|was|were)\b", re.IGNORECASE
)
_ENGLISH_SIDES = re.compile(
    r"^(?:please\s+)?(?:compare|contrast|set)\s+(.+?)\s+(?:with|to|against|versus|vs\.?)\s+(.+)$", re.IGNORECASE
)
# 몇 명이고, · 얼마이며 · 언제인지: a predicate that goes on, in a clause that asks
_KOREAN_JOINT = re.compile(r"(?<=[이하인었았되나르]고)[,\s]\s*|(?<=[이하인]며)[,\s]\s*|(?<=[인는]지)[,\s]\s*|[?？]\s+")
_KOREAN_ASKS = re.compile(r"얼마|언제|누구|누가|어디|무엇|무슨|어느|어떤|어떻게|몇|왜|며칠")


_SAME_ASKED = re.compile(
    r"(?:and\s+)?(?:how\s+(?:much|many|large|high|low|big)|what|by\s+how\s+much)(?:\s+(?:was|were|is|are|did|does|do))?"
    r"(?:\s+(?:it|they|that|this|there|the\s+(?:amount|figure|value|number|percentage|rate|ratio|size)))*",
    re.IGNORECASE,
)
"""Words that ask for the value of the thing asked about before: "and how much was it"."""


def question_parts(question: str) -> tuple[str, ...]:
    """Return the two to four questions that a question holds; itself alone if it is one, or a part is too short."""
    text = question.strip()
    korean = re.search("[가-힣]", text) is not None
    if korean:
        # cut where a clause that asks goes on into another that asks
        clauses, start = list[str](), 0
        for joint in _KOREAN_JOINT.finditer(text):
            head, rest = text[start : joint.start()], text[joint.end() :]
            if _KOREAN_ASKS.search(head) and _KOREAN_ASKS.search(rest):
                clauses.append(head.strip(" ,"))
                start = joint.end()
        parts = tuple(filter(None, (*clauses, text[start:].strip())))
    elif match := _ENGLISH_SIDES.match(text.rstrip(" .?!")):
        parts = tuple(side.strip() for side in match.groups())
    else:
        parts = tuple(part.strip(" ,;") for part in _ENGLISH_JOINT.split(text))
        parts = tuple(filter(None, parts)) if all(_ENGLISH_ASKS.search(part) for part in parts) else ()
    fewest = FEWEST_WORDS["ko" if korean else "en"]
    if not 2 <= len(parts) <= MOST_PARTS or any(len(part.split()) < fewest for part in parts):
        return (text,)
    if any(_SAME_ASKED.fullmatch(part.strip(" .?!")) for part in parts[1:]):
        return (text,)  # "… and how much was it?" asks for the value of the part before
    return parts


MOST_TURNS = 8
"""Most turns of a conversation that are remembered."""


class Recalled(NamedTuple):
    """Answers read from the JSON that they were stored as."""

    answers: tuple[Answered, ...]
    unreadable: int
    """Number of answers of other versions of this program, which are left out."""


def history_of(answers: Sequence[Answered]) -> tuple[Turn, ...]:
    """Return the last turns, oldest first, since the conversation was last reset."""
    anew = max((at for at, answered in enumerate(answers) if is_reset(answered.question)), default=0)
    return tuple(turn_of(answered) for answered in answers[anew:][-MOST_TURNS:])


def turn_of(answered: Answered) -> Turn:
    """Return a question and its answer as a turn, with the documents that a follow-up is about."""
    cited = tuple(dict.fromkeys(citation.digest for citation in answered.citations))
    return Turn(question=answered.question, answer=answered.answer, documents=cited or answered.plan.filters.documents)


def parse_answers(stored: Sequence[JsonValue]) -> Recalled:
    """Return the answers in the JSON of `Answered.model_dump(mode="json")`, and how many are of other versions."""
    answers: list[Answered] = []
    for value in stored:
        try:
            answers.append(Answered.model_validate(value))
        except ValidationError:
            continue  # an answer of another version: the conversation goes on without it
    return Recalled(tuple(answers), len(stored) - len(answers))
