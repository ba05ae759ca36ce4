"""Which facts a question asks for, and whether it asks for them of the whole project or of a part of it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from storage.index import CatalogueEntry, Fact
from tasks.rag.facts.fact_values import ANY_ID, REQUIREMENT_ID, bare

_SUBJECT = (
    r"(?:\s?(?:액|금액|규모|총액|일시|일자|일|시한|시각|시간|항목|점수|비율))?"
    r"(?:(?:은|는|이|가|을|를|과|와|도|이랑|랑|하고|이나|으로|로)?요?(?=[\s,?.·/)]|$)|이?(?=며|고|야|니|지|인|던))"
    r"(?!\s?(?:집행|조정|편성|관리|담당|부서|초과|절감|외|내에서|대비))(?!이?\s?금?\s?[0-9])"
)
_KOREAN: dict[str, str] = {
    "amount": r"""
        (?:총|사업|소요|배정|추정|용역|과업|구축)?\s?예산|(?:사업|용역|추정|기초|예정|총)\s?(?:금액|가격)|(?:총\s?)?사업비|용역비
        |(?:사업|공고|용역|기관|곳|시|군|구)(?:별|들|의)?\s금액
    """,
    "vat": r"부가(?:가치)?세(?:\s?(?:포함|별도)\s?여부)?",
    "period": r"(?:사업|계약|과업|용역|수행|이행|운영|위탁)\s?기간|(?<![가-힣])기간|납품\s?기한",
    "questions_due": r"(?:질의|질문)(?:서)?\s?(?:접수|제출|등록)?\s?(?:마감|기한)",
    "deadline": r"""
        (?<!질의\s)(?<!질의)(?<!질문\s)(?:입찰|제안서?|참가|신청서?|서류|접수|투찰)?\s?(?:참여|참가|제출|접수)?
        \s?(?:마감|제출\s?기한|접수\s?기한)
    """,
    "opening": r"(?:입찰|접수|제출)\s?(?:참여|참가)?\s?(?:시작|개시)",
    "points": r"배점|평가\s?(?:항목|점수|비율|비중)|몇\s?점",
    "requirement": r"요구\s?사항(?:\s?(?:목록|수|개수|건수|명칭|이름|번호))?",
    "notice": r"공고\s?번호",
    "project": r"사업명|사업\s?이름|용역명",
    "issuer": r"발주\s?기관|발주처|수요\s?기관|주관\s?기관|공고\s?기관|어느\s기관",
    "place": r"제출처|제출\s?장소|접수처|접수\s?장소",
    "contact": r"문의처|연락처|담당자|담당\s?부서",
    "published": r"(?:입찰\s?)?공고일|공고\s?일자",
}
_ENGLISH: dict[str, str] = {
    "amount": r"budgets?(?!\s(?:adjust|approv|year|office|committee|cut))|contract\svalues?|estimated\svalues?",
    "vat": r"VAT|value[-\s]added\stax",
    "period": r"""
        (?:contract|agreement|project)\s(?:terms?|periods?|durations?)|periods?\sof\sperformance
        |how\slong\sis\sthe\scontract
    """,
    "questions_due": r"""
        (?:questions?|inquiries)\s(?:\w+\s)?due|(?:deadline|last\sday)\sfor\s(?:\w+\s)?(?:questions|inquiries)
    """,
    "deadline": r"""
        (?:proposals?|bids?|tenders?|offers?|responses?)\s[^?.]{0,40}?\bdue|due\sdates?
        |(?:submission|proposal|bid|closing|tender)\s(?:deadlines?|dates?)
        |deadlines?(?!\sfor\s(?:\w+\s)?(?:questions|inquiries))
    """,
    "opening": r"bids?\sopen",
    "points": r"evaluation\s(?:criteria|points|weights?)|points|weights?\sof\sthe\s(?:criteria|evaluation)|weightings?",
    "requirement": r"requirements?",
    "notice": r"(?:notice|solicitation|RFP|tender)\snumbers?",
    "project": r"project\s(?:names?|titles?)",
    "issuer": r"issuers?|who\sissued|issuing\s(?:agency|authority)|contracting\sauthority",
    "place": r"(?:place|address)\s(?:of|for)\ssubmission|where\s.{0,30}\bsubmitted",
    "contact": r"contact\s(?:person|details)|whom?\s.{0,20}\bcontact",
    "published": r"issue\sdates?|(?:when|date)\s.{0,30}\bissued",
}
_WHEN = re.compile(
    r"(?:입찰|제안서?|접수).{0,12}마감(?:되|하|돼)|언제까지\s?(?:제출|접수|내야|내면)|제안서.{0,10}언제까지"
)
"""The deadline asked for by a verb."""
_PATTERNS = (
    *((name, re.compile(rf"(?:{pattern}){_SUBJECT}", re.VERBOSE)) for name, pattern in _KOREAN.items()),
    ("deadline", _WHEN),
    *((name, re.compile(rf"\b(?:{pattern})\b", re.VERBOSE | re.IGNORECASE)) for name, pattern in _ENGLISH.items()),
)
_NAMING = re.compile(
    r"명칭|이름|목록(?!\s[가-힣]{2}(?<!보여|알려))|무엇|뭐|몇\s?(?:건|개|가지)|개수|건수|수는|비교"
    r"|\bwhat\sis\b|\blist\b|\bnames?\b|\bhow\smany\b|\bcompare\b",
    re.IGNORECASE,
)
"""A requirement is asked for itself, not for something that it says."""
_ORGANISATION = re.compile(
    r"[가-힣]{2,}(?:시|군|구|청|재단|공사|공단|대학|대학교|연구원|도서관|과학관|병원|센터|협회|진흥원|보건소)|[0-9]+차"
)
"""What a document must hold by name to be the one that is asked about."""
_WORD = re.compile(r"[가-힣]+|[A-Za-z]{2,}|[0-9]+차|[0-9][0-9-]+")
_PARTICLES = re.compile(
    r"(?:으로부터|에서는|에게서|이라는|에서|까지|부터|으로|에게|하고|이랑|은|는|이|가|을|를|의|에|과|와|도|로|만)$"
)
_PLAIN_WORDS = """
사업 용역 과업 공고 과제 프로젝트 제안요청서 문서 얼마 얼마나 얼마인가 얼마인가요 얼마야 얼마입니까 언제
언제인가 언제인가요 언제야 언제까지 언제까지인가 무엇 무엇인가 무엇인가요 뭐 몇 몇점 점 점인가 점인가요 건인가
어디 어디인가 어떻게 되 되나 되나요 되는가 알려 알려줘 알려주세요 말해 말해줘 비교 비교해 비교해줘 차이 각각 그
이 저 두 세 그리고 및 최초 처음 기준 포함 여부 일시 일자 일 금액 총 입찰 참여 제출 마감 제안서 구축 인가 인지 있
있는가 각 별 발주 발주하였는가 발주했는가 은 는 the of for what is are was were when how much many which who and
in to a an project contract proposals proposal due date by do does rfp this that it its each give points get
long tell me compare
"""
_PLAIN = frozenset(_PLAIN_WORDS.split())
"""Words that name no document."""
LEAST_SHARE = 0.5


def asked_names(question: str) -> tuple[str, ...]:
    """The names of the facts that a question asks for, in the order in which it names them; empty if for others."""
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
    """The criteria that a question names; the last it names and those joined to it; all where it names none."""
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
    """Is what the question names beside the fact mostly the document itself, and not something within it?"""
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
