"""The words by which a question shows its type; `기관` does not match 주관기관.

A pattern matches the question in NFC and lower case. A Korean word may be followed by particles and by those endings
that keep its meaning: 비교하면 but not 비교적.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from tasks.rag.answers import QueryType

MOST_CHARS = 4_000
"""Only the beginning and the end of a longer question are read."""


class Rule(NamedTuple):
    """A word that indicates a type."""

    query_type: QueryType
    word: str
    """As the plan names it."""
    pattern: re.Pattern[str]


_PARTICLES = """
은 는 이 가 을 를 의 에 에서 에게 한테 께 께서 으로 로 으로서 로서 으로써 로써 와 과 랑 이랑 도 만 까지 부터 마다 조차
마저 밖에 뿐 처럼 보다 대로 이나 나 이든 든 이라도 라도 이란 란 들 간 별 쪽 측
"""
PARTICLES = frozenset(_PARTICLES.split())
_PARTICLE = "|".join(sorted(PARTICLES, key=lambda particle: (-len(particle), particle)))
_COPULA = (
    "이?다|이?고|이?며|이?라면|이?면|입니다|입니까|인가요?|인지요?|일까요?|이?예요|이에요|이?야|요|인"
    "|이?었[가-힣]*|였[가-힣]*"
)
_TAIL = f"(?:{_PARTICLE})*(?:{_COPULA})?"
_NAMED = re.compile(f"(?P<stem>[가-힣]{{2,}}?)(?:{_TAIL})")

_OPENING = r"(?:^|[.!?…:;]\s?|^(?:자|음|아|네|예|좋아|well|ok|okay),?\s)"
_WORD = "(?<![가-힣])"
_END = "(?![가-힣])"


def normal(question: str) -> str:
    """The question as the patterns expect it."""
    if len(question) > MOST_CHARS:
        question = f"{question[: MOST_CHARS // 2]} {question[-MOST_CHARS // 2 :]}"
    return " ".join(unicodedata.normalize("NFC", question).lower().split())


def rules_fired(question: str) -> list[Rule]:
    """The rules whose word the question holds, in the order of the table."""
    text = normal(question)
    return [rule for rule in RULES if rule.pattern.search(text)]


def without_particles(word: str) -> tuple[str, ...]:
    """What a Korean word may be without its particles, longest first: 가람시의 → 가람시의, 가람시."""
    found, left = [word], word
    while len(left) > 2:  # a stem of one syllable is not worth looking up
        ends = [size for size in (3, 2, 1) if len(left) - size >= 2 and left[-size:] in PARTICLES]
        if not ends:
            break
        found += [left[:-size] for size in reversed(ends)]
        left = found[-1]
    if match := _NAMED.fullmatch(word):
        found.append(match["stem"])
    return tuple(sorted(set(found), key=lambda form: (-len(form), form)))


def _korean(word: str, tail: str = _TAIL, *, before: str = "", after: str = "") -> re.Pattern[str]:
    return re.compile(f"{before or _WORD}(?:{word})(?:{tail}){_END}{after}")


def _not_after(*words: str) -> str:
    """Words that would make another word of the next one, though a space is between."""
    return _WORD + "".join(f"(?<!{word} )" for word in words)


# 전년 대비, 예산 대비: a ratio within one document. 재난 대비, 장애에 대비: a preparation.
_NO_OTHER_SIDE = """
전년 전년도 전년동기 동기 전기 전월 전분기 전반기 전일 전주 작년 지난해 지난달 직전 당초 기존 과거 평년 예년
계획 목표 예산 예정 기준 매출 매출액 총액 비용 가격 용량 면적 인구 자산 자본 정원 정가 평균 실적 수입 지출 gdp
재난 재해 화재 지진 홍수 침수 폭염 폭설 한파 비상 위기 장애 사고 침해 공격 고장 유사시 만일 우기 동절기 하절기
겨울철 여름철 노후 미래
"""
_BEFORE_RATIO = (
    _not_after(*_NO_OTHER_SIDE.split())
    + "".join(f"(?<![가-힣]{end} )" for end in "에을를")
    + "".join(rf"(?<!\d{end} )" for end in ("년", "월", "기", "년도", "분기", "%", ""))
)
_OTHER_SIDE = r"(?= ?[^\s?.!,])(?! ?(?:책|훈련|태세|계획))"
# one document has one of each, whether written with a space or without
_ROLES = """
발주 주관 총괄 수행 수요 전담 공고 담당 소관 주무 시행 관리 감독 계약 운영 평가 심사 검수 인증 시험 수탁 위탁 시공
해당 이 그 저 본 동 당 우리
"""
_ALTERNATIVE = (
    "큰|작은|많은|적은|높은|낮은|긴|짧은|비싼|싼|빠른|느린|이른|늦은|크|작|많|적|높|낮|길|짧|비싸|빠르|이르|늦"
)
_ASKING = "알려|말해|말씀|설명|보여|찾아|정리|요약|자세|상세|구체|있|없|알고|묻|물어|궁금|들려|부탁|해\\s?줘|줘"
_MORE = "(?:[가-힣]+게 |[가-힣]+히 |[가-힣]+으로 )?"
_COMPARATIVE = "larger|higher|bigger|smaller|lower|cheaper|longer|shorter|more|less|earlier|later"
_ONE = (
    "(?:document|file|report|filing|notice|tender|rfp|proposal|bid|contract|project|company|firm|agency|issuer"
    "|institution|city)"
)
_MANY = (
    "(?:documents|files|reports|filings|notices|tenders|rfps|requests|proposals|bids|contracts|projects|companies|firms"
    "|agencies|issuers|institutions|organi[sz]ations|cities)"
)
_PERIOD = (
    r"(?:the\s)?(?:fy|fiscal|q[1-4]\b|(?:19|20)\d\d|[1-4]q\b|(?:prior|previous|last|preceding|same)\s"
    r"(?:\w+\s)?(?:years?|quarters?|months?|periods?)|year|budget|plan)"
)
_AND_ASKS = "what|when|how|who|where|which|why|for|in|the|its|their|his|her|is|are|does|did|if"


def _english(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w'’-])(?:{pattern})(?![\w'’-])")


def _opens(words: str) -> re.Pattern[str]:
    return re.compile(rf"{_OPENING}(?:{words})(?![\w가-힣'’-])")


_COMPARE = (
    ("비교", _korean("비교", rf"(?:표|점|분석|검토|대상)?{_TAIL}|(?:하|해|했|한|할|합|함|되|된|될|돼)[가-힣]*")),
    # 차이나 is China; of the verb only what cannot be China with a particle
    ("차이", _korean("차이", rf"(?!나)(?:점|값)?{_TAIL}|(?:나는[가지]|나나|나요|나죠|난|날|납니)[가-힣]*")),
    ("서로", _korean("서로")),
    ("vs", re.compile(rf"(?<![a-z])vs(?![a-z])(?!\.?\s?{_PERIOD})")),
    ("대비", _korean("대비", "", before=_BEFORE_RATIO, after=_OTHER_SIDE)),
    (
        "더 큰",
        re.compile(
            rf"{_WORD}(?:중|중에|중에서|가운데|어느 쪽이)(?: [^ ]+){{0,12}}? "
            rf"(?:더 (?:{_ALTERNATIVE})|(?:{_ALTERNATIVE}) 쪽)"
        ),
    ),
    ("어떻게 다른가", _korean("다[른르를릅]|달라", "[가-힣]*", before=rf"{_WORD}(?:어떻게|무엇이|뭐가|얼마나) ")),
    ("versus", _english(rf"versus(?!\s{_PERIOD})")),
    ("compare", _english(rf"(?:compare|compares|comparing|comparison)(?! (?:to|with) {_PERIOD})")),
    ("compared with", _english(rf"compared (?:with|to)(?! {_PERIOD})")),
    ("difference", _english(rf"differences? (?:between|from)(?! {_PERIOD})|differs?|differences? (?:are|is) there")),
    ("which … or", _english(rf"which\b[^.?!]*\b(?:{_COMPARATIVE})\b[^.?!]* or")),
    (
        "which is more",
        _english(
            "which(?: one| company| project| of (?:them|the two))? (?:has|have|had|is|was|are|were) (?:the |a )?"
            f"(?:{_COMPARATIVE})"
        ),
    ),
)
_FOLLOWUP = (
    ("그럼", _korean("그럼|그러면", "")),
    ("그렇다면", _korean("그렇다면", "")),
    ("또", _opens("또")),
    ("또", re.compile(rf"{_WORD}또 {_MORE}(?:{_ASKING}|다른 )")),
    ("추가로", _opens("추가로")),
    ("추가로", re.compile(rf"{_WORD}추가로 {_MORE}(?:{_ASKING})")),
    ("더", re.compile(rf"{_OPENING}더 (?!{_ALTERNATIVE}|이상|이하)")),
    ("더", re.compile(rf"{_WORD}더 {_MORE}(?:{_ASKING})|{_WORD}더 ?(?:[?!.]|$)")),
    ("이어서", _opens("이어서")),
    ("이어서", re.compile(rf"{_WORD}이어서 {_MORE}(?:{_ASKING})")),
    ("방금", _korean("방금", "|의|전에?|은")),
    ("앞서", _korean("앞서", "|의", before=_WORD + "(?<!에 )")),
    ("then", _opens("then|and then|so then")),
    ("also", _opens("also|and also|in addition|additionally")),
    ("and", _opens(rf"and(?= (?:{_AND_ASKS})\b)")),
    ("what about", _opens("(?:and |so |then |but )?(?:what|how) about")),
    ("more", _opens("(?:what|anything|who) else|tell me more|(?:any )?more details?|go on|continue")),
    ("you said", _english(r"you (?:just |have )?(?:said|mentioned|told|named)|your (?:last|previous) answer|just now")),
)
_MULTI = (
    ("여러", _korean("여러", f"|(?:가지|개|곳|건|기관|사업|문서|공고|회사){_TAIL}")),
    ("모든", _korean("모든", f"|(?:기관|사업|문서|공고|자료|업체|회사){_TAIL}")),
    ("각각", _korean("각각")),
    ("기관", _korean("기관", before=_not_after(*_ROLES.split()))),
    ("기관", _korean("기관", rf"(?:들|별|마다){_TAIL}")),
    (
        "all",
        _english(rf"(?:all|both|several|multiple|various|across)(?: of)?(?: the| these| those| our)?(?: \w+)? {_MANY}"),
    ),
    ("every", _english(rf"(?:each|every)(?: {_ONE}| of (?:the|these|those|our)(?: \w+)? {_MANY})")),
    ("each", re.compile(r"(?<![\w'’-])(?:for|of|by|in) each(?= ?[?.,;]|$)")),
    ("which of", _english(rf"which (?:of (?:the|these|those|our) )?(?:\w+ )?{_MANY}")),
    ("list all", _english("list (?:all|every|each|the names of)")),
)
_WORDS: dict[QueryType, tuple[tuple[str, re.Pattern[str]], ...]] = {
    "compare": _COMPARE,
    "followup": _FOLLOWUP,
    "multi": _MULTI,
}
"""The seed's words, and their English equals."""
RULES = tuple(Rule(query_type, word, pattern) for query_type, words in _WORDS.items() for word, pattern in words)
