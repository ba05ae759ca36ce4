"""Reads the answer of a response: strictly, flexibly, and as the source of its benchmark reads it.

strict     an answer that is announced: the last box, `####`, `the answer is …`, a JSON field
flexible   strict; else what stands where answers stand: bold, the last line, the last number, a letter in prose
published  the rule of the benchmark's source, a list of steps of which the first that finds something decides

Reasoning is taken away first. Phrases that announce an answer in Korean, Chinese, Japanese, German, French and Spanish
are sought from the end of a text, by patterns of which every match begins with one of a few words; English phrases
stand with each grader, since what may follow them differs: a number, a letter, or words.
"""

from __future__ import annotations

import json
import logging
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic
from typing import Any, Literal, NamedTuple, cast, get_args

import regex
from pydantic import JsonValue, field_validator, model_validator

from storage.records import Record
from tasks.grading.grading_records import Item, Response, Sample, make_sample

log = logging.getLogger(__name__)

Policy = Literal["published", "strict", "flexible"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
READINGS = "readings"
"""Key of `Sample.detail`: what policies other than the headline's read, where it differs."""
MOST_BOX_CHARS = 40_000
"""A longer box is no answer; its equality with one would not be tried."""
PATTERN_S = 2.0
"""Time for one pattern on one response; it then matches nothing, with a warning."""
_BRACE = re.compile(r"[{}]")
BOLD = re.compile(r"\*\*([^*\n]{1,200})\*\*")
"""Matches bold text on one line."""


def count_groups(pattern: str) -> int:
    """Return the number of groups of a regular expression. Raises ValueError for a pattern that is not one."""
    try:
        return regex.compile(pattern).groups
    except regex.error as error:
        raise ValueError(f"not a regular expression ({error})") from error


class Pattern(Record):
    """A regular expression whose first matching group is the answer."""

    first: str | None = None
    """A pattern of which the first match decides."""
    last: str | None = None
    """A pattern of which the last match decides."""
    within_line: bool = False
    """No match holds a line break: of `last`, lines are searched from the last one on."""

    @field_validator("first", "last")
    @classmethod
    def _has_a_group(cls, pattern: str | None) -> str | None:
        if pattern is not None and not count_groups(pattern):
            raise ValueError("expected a group, the answer; it has none")
        return pattern

    @model_validator(mode="after")
    def _one_of_both(self) -> Pattern:
        if (self.first is None) == (self.last is None):
            raise ValueError("give `first` or `last`, a regular expression of which that match decides")
        return self


Step = Literal["last_box", "strict", "flexible"] | Pattern
"""One step of a published rule."""


class Readings(NamedTuple):
    """The answer that each policy reads in one response; None for no answer."""

    published: str | None
    strict: str | None
    flexible: str | None


UNREAD = Readings(None, None, None)
"""The readings of a response without a visible answer."""


class Rule(NamedTuple):
    """How the answers of the responses to a benchmark are read."""

    published: tuple[Step, ...]
    headline: Policy = "published"
    """The policy that decides the score."""

    def read(self, visible: str, strict: str | None, flexible: str | None) -> Readings:
        """Return the readings, `published` of the first step that finds one; `visible`: text without reasoning."""
        published = None
        for step in self.published:
            if isinstance(step, Pattern):
                published = _find_match(step, visible)
            else:
                published = last_box(visible) if step == "last_box" else strict if step == "strict" else flexible
            if published:
                break
        return Readings(published or None, strict, flexible)


STRICT, FLEXIBLE = Rule(("strict",)), Rule(("flexible",))
"""Rules of benchmarks without a published one."""


def last_box(text: str) -> str | None:
    """Return the content of the last `\\boxed{…}`, or of the last `\\fbox{…}` where there is none.

    None without one, if it is never closed, or is longer than MOST_BOX_CHARS, where `\\boxed 5$` is cut instead.
    Source: `last_boxed_only_string` and `remove_boxed` of hendrycks/math, as lm_eval and evalchemy have them.
    """
    start = text.rfind("\\boxed")
    start = start if start >= 0 else text.rfind("\\fbox")
    if start < 0:
        return None
    if text.startswith("\\boxed ", start):
        return text[start + len("\\boxed ") :].partition("$")[0][:MOST_BOX_CHARS].strip()
    depth = 0
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            content = text[text.index("{", start) + 1 : brace.start()].strip()
            return content if len(content) <= MOST_BOX_CHARS else None
    return None


def _find_match(pattern: Pattern, text: str) -> str | None:
    """Return the first non-empty group of the match that decides, stripped; None without one, or after PATTERN_S."""
    source = cast("str", pattern.first or pattern.last)
    # a pattern without repetition cannot backtrack for long, and needs no limit of time
    compiled, timeout_s = regex.compile(source), PATTERN_S if set("*+{") & set(source) else None
    match: regex.Match[str] | None = None
    end, until = len(text), monotonic() + PATTERN_S
    try:
        if pattern.first is not None:
            match = compiled.search(text, timeout=timeout_s)
        while pattern.last is not None and match is None and end >= 0:  # the last match, by lines where it is in one
            start = text.rfind("\n", 0, end) + 1 if pattern.within_line else 0
            for match in compiled.finditer(text, start, end, timeout=timeout_s):  # noqa: B007 the last one counts
                pass
            end = start - 1
            if match is None and monotonic() > until:
                raise TimeoutError
    except TimeoutError:
        log.warning("published pattern took over %g s on %d characters: %s", PATTERN_S, len(text), pattern)
        return None
    return next((group.strip() for group in match.groups() if group), None) if match else None


def grade_readings(
    rule: Rule, readings: Readings, item: Item, response: Response, grade: Callable[[str | None], dict[str, Any]]
) -> Sample:
    """Return the sample of the headline's reading, with what other policies read where that differs.

    grade: gives the fields of the sample for a reading, `score` and `extracted` among them; each reading is graded
    once.
    """
    graded = {answer: grade(answer) for answer in dict.fromkeys(readings)}
    by_policy = {policy: graded[answer] for policy, answer in zip(POLICIES, readings, strict=True)}
    headline = by_policy[rule.headline]
    differing: dict[str, JsonValue] = {
        policy: {"extracted": fields["extracted"], "score": fields["score"]}
        for policy, fields in by_policy.items()
        if fields["extracted"] != headline["extracted"] or fields["score"] != headline["score"]
    }
    if differing:
        headline["detail"] = headline.get("detail", {}) | {READINGS: differing}
    return make_sample(item, response, **headline)


def readings_of(sample: Sample) -> Mapping[str, Mapping[str, JsonValue]]:
    """Return `extracted` and `score` by policy, for policies that read another answer than the headline's."""
    return cast("Mapping[str, Mapping[str, JsonValue]]", sample.detail.get(READINGS) or {})


def score_under(policy: Policy, sample: Sample) -> float | None:
    """Return the score of a sample under a policy; None where it could not be graded."""
    reading = readings_of(sample).get(policy)
    return sample.score if reading is None else cast("float | None", reading["score"])


TAGS = (("<think>", "</think>"), ("<thinking>", "</thinking>"), ("[THINK]", "[/THINK]"), ("◁think▷", "◁/think▷"))
"""Tags around the reasoning of DeepSeek and Qwen, Claude-like, Magistral, and Kimi models."""
FINAL_CHANNEL = "<|channel|>final<|message|>"
"""Begins the answer of gpt-oss where a server passes its harmony format on."""
HARMONY_END = re.compile(r"<\|(?:return|end|start|call)\|>.*", re.S)


def visible_answer(text: str) -> str | None:
    """Return `text` without its reasoning, stripped; None where the reasoning was never closed."""
    visible = visible_text(text)
    return None if visible is None else visible.strip()


def visible_text(text: str) -> str | None:
    """Return `text` without its reasoning, not stripped, since the indentation of a program matters.

    None where the reasoning was never closed. A closing tag without an opening one ends reasoning too: many chat
    templates write the opening tag themselves.
    """
    if "<|channel|>" in text:
        _, final, answer = text.rpartition(FINAL_CHANNEL)
        return HARMONY_END.sub("", answer) if final else None
    if "hink" not in text and "THINK" not in text:  # most texts hold no tag
        return text
    for opening, closing in TAGS:
        _, _, text = text.rpartition(closing)  # of several thoughts the last one counts
        if opening in text:
            return None
    return text


def why_missing(response: Response, nothing_found: str = "") -> str:
    """Return why a response has no answer: its reasoning was never closed, or `nothing_found`."""
    if visible_text(response.text) is not None:
        return nothing_found or "no answer was found"
    return f"{'' if nothing_found else 'no answer was found: '}the reasoning was never closed"


FIRST_WINDOW = 1_000
"""Characters at the end of a text, where answers stand, that are searched first."""
GROWTH = 8


class Anchored:
    """A regular expression of which every match begins with one of `words`, in whatever case."""

    def __init__(self, pattern: str, words: Sequence[str], flags: int = 0) -> None:
        self.pattern = re.compile(pattern, flags)
        self._words = tuple(word.lower() for word in words)
        self._ascii_words = tuple(word for word in self._words if word.isascii())
        self._overlap = max(map(len, self._words)) - 1

    def backwards(self, text: str) -> Iterator[re.Match[str]]:
        """Yield the matches in `text`, the last first; overlapping matches each count."""
        high, window = len(text), FIRST_WINDOW
        while high > 0:
            low = max(0, high - window)
            part = text[low : high + self._overlap]  # a word may begin in this window and end behind it
            folded = part.lower()
            starts: set[int] = set()
            if len(folded) != len(part):  # İ is two characters in lower case: tried everywhere
                starts.update(range(low, high))
            else:
                for word in filter(folded.__contains__, self._ascii_words if part.isascii() else self._words):
                    at = folded.find(word)
                    while 0 <= at < high - low:
                        starts.add(low + at)
                        at = folded.find(word, at + 1)
            for start in sorted(starts, reverse=True):
                if match := self.pattern.match(text, start):
                    yield match
            high, window = low, window * GROWTH


_GERMAN = r"(?:[Aa]ntwort|Lösung|Ergebnis)(?:[ \t]+(?:auf|zu|für)\b[^.:\n]{0,80}?)?(?:[ \t]+(?:ist|lautet|beträgt)\b"
_FRENCH = (
    r"[Rr](?:éponse|ésultat|esultat)(?:[ \t]+(?:finale?|correcte?|exacte?|à|au|de)\b[^.:\n]{0,80}?)?(?:[ \t]+est\b"
)
_SPANISH = r"[Rr](?:espuesta|esultado)(?:[ \t]+(?:final|correcta|correcto|a|al|de)\b[^.:\n]{0,80}?)?(?:[ \t]+es\b"
_COLON = r"|[ \t]*\**[ \t]*[:：])"
_OTHER_LANGUAGES = (
    rf"(?<![^\W_])(?:{_GERMAN}{_COLON}|{_FRENCH}{_COLON}|{_SPANISH}{_COLON})"
    r"|(?<![가-힣])(?:최종\s?)?(?:정답|답안|답)(?:[은는이]|[ \t]*\**[ \t]*[:：])"
    r"|(?:答案|答え|解答|正解)\**[ \t]*(?:(?:应该|應該)?[是为為]|は|[:：]|(?=不是))"
    r"|(?<![^\s*])答[ \t]*[:：]|(?:<answer>|\[ANSWER\])(?![ \t]*[:=])"
)
_WORDS = ("Antwort", "Lösung", "Ergebnis", "Réponse", "Résultat", "Resulta", "Respuesta")
_SIGNS = ("최종", "정답", "답", "答", "解答", "正解", "<answer>", "[ANSWER]")
"""With `_WORDS`, what the phrases above begin with."""


def announcements(english: str, words: Sequence[str], flags: int = 0) -> Anchored:
    """Return a pattern of what announces an answer, in English or another language.

    A match ends where the answer begins. english: the source of a regular expression without groups; words: its matches
    begin with one of them.
    """
    other_languages = rf"(?-x:(?:{_OTHER_LANGUAGES})\**[ \t]*:?[ \t]*)"
    return Anchored(rf"{english}|{other_languages}", (*words, *_WORDS, *_SIGNS), flags)


_VALUE = r"(?:\$[^$\n]{1,40}\$|[(\[\\]{0,2}(?:[A-Z](?![A-Za-z])|[①-⑩ㄱ-ㅎ]|-?\d++(?:[.,/]\d++)*+)[)\]]{0,2})"
_VALUES = rf"{_VALUE}(?:(?:\s?,)?\s?(?:,|and|or|nor|및|와|과|、|和|と)\s?(?!\$[^$\n]*=){_VALUE})*+"
_REFUSED = (
    r"(?i:(?:is|are|was|were|do|does|did|ca|wo|would|should|must)n[’']?t|not|cannot|never|neither|anything\sbut|without|rather\sthan|instead\sof|except(?:\sfor)?|other\sthan"
    r"|rul(?:es?|ed|ing)\sout|(?:eliminat|exclud|reject)\w{1,4})"
)
_WRONG = r"(?i:wrong|incorrect|false|a\sdistractor|out|impossible|eliminated|excluded|ruled\sout)"
DENIED = re.compile(
    rf"(?P<bracket>[(\[（]\s?)?(?:,?\s?\b{_REFUSED}\s(?:(?:be|pick|choose|select|go(?:ing)?\swith|that|it[’']s|options?|choices?|the\sanswer\sis)\s){{0,2}}"
    rf"{_VALUES}(?!\w)\)?(?:,?\sbut(?:\srather|\sinstead)?)?"
    rf"|(?:而非|排除|不(?:可能|[能应该該]{{1,2}})?[是选選]){_VALUES}[,，]?\s?(?:而是)?"
    rf"|\b{_VALUES}\s(?:is|are|was|were|can)(?:n[’']?t|\snot|\s(?:\w{{1,9}}\s)?{_WRONG})\b[^,;.]*"
    rf"|(?:(?:이지|지),?\s)?(?<![A-Za-z\d]){_VALUES}(?:\s?[^\W\d]{{0,3}}?[이가은는도를을]?\s?"
    r"(?:(?:정?답[이일]\s?)?아[니닌닙님]|[^,.]{0,10}(?:수\s?없|안\s?[되돼됩된될])|틀[리렸린]|오답|제외|[맞옳]지\s?않)\w*"
    r"|、?\s?[^\W\d]{0,2}?(?:を選ぶべき)?(?:では|じゃ)(?:なくて?|ない|ありません)、?|(?:とは言え|は(?:誤り|間違|不正|不適|\w{1,4}く(?:ない|ありません)))\w*"
    r"|(?:选?项)?(?:不[是对對正]|[错錯])[^，。,）]*))(?(bracket)\s?[)\]）]?)"
)
"""Options that are denied: `not B but` C; C`, not B`; `B가 아니라` C; `不是B而是`C; `Bではなく`C; `B is wrong`."""
_DENIAL = re.compile(
    rf"\b{_REFUSED}|\b{_WRONG}\b|아[니닌닙님]|[않없틀]|오답|제외|안\s?[되돼됩된될]|[不誤错錯]|而非|排除|では|じゃ|とは言え|間違|く(?:ない|あり)"
)


def drop_denied(statement: str) -> str:
    """Return a statement, a sentence or so, without the values that it denies."""
    return DENIED.sub(" ", statement) if _DENIAL.search(statement) else statement


_FIELD = re.compile(
    r'"(?:final_?|correct_?)?answer"\s{0,9}:\s{0,9}(?P<value>"(?:[^"\\\n]|\\.){0,2000}"|-?\d[\d.eE+-]{0,40})',
    re.IGNORECASE,
)


def json_field(text: str) -> str | None:
    """Return the value, as text, of the last JSON field `answer`, `final_answer` or `correct_answer`; else None."""
    if not (matches := deque(_FIELD.finditer(text), maxlen=1)):
        return None
    value = matches[0]["value"]
    if not value.startswith('"'):
        return value
    try:
        return str(json.loads(value)).strip() or None
    except ValueError:  # LaTeX in it, whose backslashes are none of JSON's
        return value[1:-1].strip() or None
