"""Which facts a question asks for, and whether it asks about the whole project or a part of it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from storage.catalogue import CatalogueEntry, Fact
from tasks.rag.facts.fact_values import ANY_ID, FACTS, REQUIREMENT_ID, bare

_SUBJECT = (
    r"(?:\s?(?:액|금액|규모|총액|일시|일자|일|시한|시각|시간|항목|점수|비율))?"
    r"(?:(?:은|는|이|가|을|를|과|와|도|이랑|랑|하고|이나|으로|로)?요?(?=[\s,?.·/)]|$)|이?(?=며|고|야|니|지|인|던))"
    r"(?!\s?(?:집행|조정|편성|관리|담당|부서|초과|절감|외|내에서|대비))(?!이?\s?금?\s?[0-9])"
)
_WHEN = re.compile(
    r"(?:입찰|제안서?|접수).{0,12}마감(?:되|하|돼)|언제까지\s?(?:제출|접수|내야|내면)|제안서.{0,10}언제까지"
)
"""Questions for the deadline that use a verb."""
_ASKED = FACTS["asked"]
_PATTERNS = (
    *((name, re.compile(rf"(?:{one}){_SUBJECT}", re.VERBOSE)) for name, one in _ASKED["korean"].items()),
    ("deadline", _WHEN),
    *((name, re.compile(rf"\b(?:{one})\b", re.VERBOSE | re.IGNORECASE)) for name, one in _ASKED["english"].items()),
)
_NAMING = re.compile(
    r"명칭|이름|목록(?!\s[가-힣]{2}(?<!보여|알려))|무엇|뭐|몇\s?(?:건|개|가지)|개수|건수|수는|비교"
    r"|\bwhat\sis\b|\blist\b|\bnames?\b|\bhow\smany\b|\bcompare\b",
    re.IGNORECASE,
)
"""Shows that a question asks for requirements, not for what one of them says."""
_ORGANISATION = re.compile(
    r"[가-힣]{2,}(?:시|군|구|청|재단|공사|공단|대학|대학교|연구원|도서관|과학관|병원|센터|협회|진흥원|보건소)|[0-9]+차"
)
"""Organisations and notice rounds: a document is only meant if it contains those that the question names."""
_WORD = re.compile(r"[가-힣]+|[A-Za-z]{2,}|[0-9]+차|[0-9][0-9-]+")
_PARTICLES = re.compile(
    r"(?:으로부터|에서는|에게서|이라는|에서|까지|부터|으로|에게|하고|이랑|은|는|이|가|을|를|의|에|과|와|도|로|만)$"
)
_PLAIN = frozenset(FACTS["plain"]["words"].split())
"""Words that name no document."""
LEAST_SHARE = 0.5


def asked_names(question: str) -> tuple[str, ...]:
    """Names of the facts that a question asks for, in order of mention; empty if it asks for none."""
    asked: dict[str, int] = {}
    for name, pattern in _PATTERNS:
        if match := pattern.search(question):
            asked[name] = min(match.start(), asked.get(name, len(question)))
    if "requirement" in asked and not _NAMING.search(question):
        del asked["requirement"]
    if "requirement" not in asked and REQUIREMENT_ID.search(question) and _NAMING.search(question) and not asked:
        asked["requirement"] = 0
    return tuple(sorted(asked, key=lambda name: asked[name]))


def asked_ids(question: str) -> tuple[str, ...]:
    """Ids of requirements that a question names, in their written form."""
    found = (match.group() for match in re.finditer(rf"(?<![A-Z0-9]){ANY_ID.pattern}", question.upper()))
    return tuple(dict.fromkeys(re.sub("[_‐–]", "-", one) for one in found if REQUIREMENT_ID.fullmatch(one)))


def asked_criteria(question: str, facts: Sequence[Fact]) -> list[Fact]:
    """The last criterion that a question names, with those joined to it by `and`; all if it names none."""
    asked = bare(question)
    named: list[tuple[int, int, Fact]] = []
    for fact in facts:
        label = bare(fact.label)
        if label and (start := asked.rfind(label)) >= 0:
            named.append((start, start + len(label), fact))
    # within a longer name the shorter one is not asked for: 기능 in 기능 요구사항
    whole = [
        (start, end, fact)
        for start, end, fact in named
        if not any(first <= start and end <= last and last - first > end - start for first, last, _ in named)
    ]
    if not whole:
        return list(facts)
    whole.sort(key=lambda one: one[0])
    kept = [whole.pop()]
    while whole and re.fullmatch(r"과|와|및|이랑|랑|and", asked[whole[-1][1] : kept[0][0]]):
        kept.insert(0, whole.pop())
    return [one[2] for one in named if one in kept]


def is_about(question: str, entry: CatalogueEntry) -> bool:
    """Whether the words of the question beside the fact mostly name the document, not a part of it."""
    known = [entry.name, entry.title or "", *entry.aliases]
    known += [value for field, value in entry.metadata.items() if not field.endswith("_page")]
    known += [f"{fact.label} {fact.value}" for fact in entry.facts if fact.name != "requirement"]
    names = re.sub(r"[\W_]", "", " ".join(known)).casefold()
    rest = question
    for _, pattern in _PATTERNS:
        rest = pattern.sub(" ", rest)
    words = [word.casefold() for word in _WORD.findall(rest)]
    words = [stem for word in words if word not in _PLAIN and (stem := _PARTICLES.sub("", word) or word) not in _PLAIN]
    held = [word for word in words if word in names or (len(word) > 2 and word[:-1] in names)]
    if any(_ORGANISATION.fullmatch(word) and word not in held for word in words):
        return False
    return len(held) >= LEAST_SHARE * len(words)
