"""Finds the answer in a response: the last box, or what a phrase announces, or an expression at its end."""

from __future__ import annotations

import re
from collections import deque
from itertools import islice

from tasks.grading.math.boxes import last_boxed
from tasks.grading.math.expressions import FUNCTIONS
from tasks.grading.math.math_reading import read_answer
from tasks.grading.math.math_tokens import CJK, UNITS, NotUnderstood, listed_words
from tasks.grading.math.normalization import MAX_CHARS, PLAIN_NUMBER, VERB_AT_THE_END, join_myriads, normalize
from tasks.grading.reading import UNREAD, Readings, Rule, announcements, drop_denied, json_field, visible_answer

TAIL_CHARS = 20_000
"""Phrases are searched in this much of a response's end."""
SENTENCE_CHARS = 200
"""A text of at most this length in which nothing is found is an answer in words."""
MOST_STATEMENTS = 100
MOST_WORDS = 3
"""In an answer without a sentence around it."""
_PHRASES = announcements(
    r"(?<![a-z])[Aa](?:nswer|NSWER|ns(?=[.:= ]))[*>.]*[ \t]*(?:(?:is|are|:|=|would be|to [^.\n]{0,80}? is)\**[ \t]*)+:?"
    r"|\#{4}[ \t]*:?[ \t]*(?=[-+−$£€¥\\(\[{.\d])|^\#{4}[ \t]*(?=\S[^\n]*\s*\Z)"
    r"|[Aa](?:nswer|NSWER)[*>: \t]*$|∴[ \t]*"
    r"|^A:[ \t]*(?=[-+−$£€¥\\(\[{.\d][^\n]*\s*\Z)",  # of GSM8K's model solutions; else an option
    ("ans", "####", "A:", "∴"),
    re.M,
)
_SPECIAL_TOKEN = re.compile(r"<\|[^|<>\n]{1,40}\|>|</?(?:s|end of [a-z]{1,12}|eos)>|<\s?/answer>|\[/answer\]", re.I)
"""Left behind an answer by a chat template, or the end of its tag."""
_CLAUSE = re.compile(
    r"[,;]?\s{1,9}(?:because|since|so|which|but|not|as|it|that|I\shope)\b.*|,\s{1,9}[a-z]{1,20}ly\b.*", re.S
)
"""Words that go on behind an answer: `5, since 3 + 2 = 5`."""
_SPAN = re.compile(
    r"\$\$(.{1,2000}?)\$\$|\$(?<!\\.)([^$\n]{1,2000}?)(?<!\\)\$|\\\(([^\n]{1,2000}?)\\\)|\\\[(.{1,2000}?)\\\]", re.S
)
_BETWEEN = re.compile(r"\s*(?:,?\s*(?:\\text\{\s*)?(?:and|or)\s*\}?|[,;])\s*")
_NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.])(?:[-+−]|(?:minus|negative|마이너스|マイナス|[负負])\s?)?[$€£¥]?\s?(?:"
    r"\d{1,3}(?:[, ]\d{3})+(?!\d)(?:\.\d+)?|\d+(?:[.,]\d+)?|\.\d+)"
    r"(?:\s*[/*+^-]\s*\(?-?\d+(?:\.\d+)?\)?)*\s*(?:\\?%|percent)?"
)
_OF_WHOLE = re.compile(r"\d(?:\s[a-z]{1,15}){0,3}\s(?:(?:out\s)?of\sthe|out\sof)\s?$")
"""Before a number of which the answer is a part: `7 apples left of the 12`."""
_ASIDE = re.compile(rf"(?<=[\w%$])\s?\((?!mod)[A-Za-z{CJK}]{{2}}[^()]*\)")
"""Words in brackets behind an answer: `7 (not 8)`, `7 (seven)`."""
_UNIT_WORD = "|".join(sorted(map(re.escape, UNITS), key=len, reverse=True))
_GAP = r"(?:[\s~]|\\[,; ]){0,4}"
_COUNTED = rf"\d[\d,.]{{0,20}}{_GAP}(?:\\(?:text|mathrm)\{{\s*)?(?:{_UNIT_WORD})(?:\s?,|\sand)?\s?\}}?"
_AMOUNT = re.compile(rf"(?<![\w.,]){_COUNTED}(?:{_GAP}{_COUNTED})+(?![A-Za-z])")
"""An amount in several units, `6 hours and 30 minutes`, of which no number is the answer alone."""
_CLOSING = re.compile(r"[)}\]]")
_ANY_LETTER = re.compile("[A-Za-z]")
_BOLD = re.compile(rf"\*\*\s*({_NUMBER.pattern}[^\s*\d]{{0,12}}|\$[^$*\n]{{1,200}}\$)[.,]?\s*\*\*")
_PERCENT = re.compile(r"\s*(?:\\?%|percent\b)")
_OPERATOR = re.compile(r"[-+*/^=<>(√_:]|[a-z]{2}")
_UNIT = re.compile(r"\s*[$€£¥%]*\s*[msghLNJKWVACFTl]?[²³]?[\s.$€£¥]*|\s+[a-zA-Z$€£¥].*")
_TUPLE = re.compile(r"[({\[]\s*[^\s()\[\],$]{1,30}(?:\s*,\s*[^\s()\[\],$]{1,30})+\s*[)}\]]")
_CONDITION = re.compile(r"\s*,?\s*(?:where|for|with|if|when)\b")
_MARKED = re.compile(r"[$\\]")
_COMMAND = re.compile(r"\\[a-zA-Z]+\s*\{[^{}]*\}")
_I_AM = re.compile(r"(?<![\\\w])I [a-z]{2}")
_WORD = re.compile(r"\S+")
_LETTERS = re.compile("[A-Za-z]+")
_END_OF_SENTENCE = re.compile(r"(?<=[^.])\.(?=\s+[A-Z]|\s*$)")
_LAST_LETTER = re.compile(r"(?:\(([A-J])\)|(?<![\w'’])([A-HJ]))[\s.!*]*\Z")  # a bare I is a word
_NAMES = FUNCTIONS.union("sqrt theta alpha beta gamma delta lambda omega frac infinity infty".split())  # noqa: SIM905
_PROSE = re.compile(rf"[A-Za-z](?<![\\A-Za-z{{].)[A-Za-z]+(?:['’][a-z]+)?|[{CJK}]{{1,4}}")
_LIMIT = re.compile(
    rf"^\**(?:the\s)?(?:(?:at|not?|[a-z]+(?=\sroot))\s)?(?:either|{'|'.join(listed_words('limits'))})\s(?:(?:than|of)\s)?(?=[\d$\\])",
    re.I,
)
"""Words before a number that make another one of it."""
_SMALL_WORDS = listed_words("sentences")
"""That stand in sentences and never in formulas."""


def read_answers(response: str, rule: Rule) -> Readings:
    """Return what each policy reads in a response; strict: the last box, else a JSON field, else what is announced.

    Reasoning is not read. Boxes side by side in a sentence are one answer. A box that the end of the text cuts off is
    no answer; one whose line ends before its brace is closed holds the rest of that line.
    """
    visible = _strip_tokens(response)
    if visible is None:
        return UNREAD
    strict = _find_boxed_or_announced(visible) or None
    return rule.read(visible, strict, strict or _find_unannounced(visible) or None)


def _strip_tokens(response: str) -> str | None:
    visible = visible_answer(response)
    tail = visible[-TAIL_CHARS:] if visible else ""
    return _SPECIAL_TOKEN.sub("\n", visible).strip() if visible and ("<" in tail or "[/" in tail) else visible


def _find_boxed_or_announced(visible: str) -> str | None:
    """Return the last box, a JSON field, or what the last announcement announces; None without any."""
    if boxed := last_boxed(visible):
        return boxed
    tail = visible[-TAIL_CHARS:]
    if '"' in tail and (field := json_field(tail)):
        return field
    for match in islice(_PHRASES.backwards(tail), MOST_STATEMENTS):
        if answer := _read_statement(tail[match.end() :].lstrip(" *:：\n")):
            return answer
    return None


def _read_statement(rest: str) -> str | None:
    """Return the answer at the beginning of what follows a phrase; None where nothing does."""
    rest = rest[: MAX_CHARS * 2]
    line, newline, below = rest.partition("\n")
    rest = drop_denied(_ASIDE.sub("", line)).lstrip() + newline + below
    if first := _SPAN.match(rest):
        return _join_spans(rest, first)
    sentence = _END_OF_SENTENCE.split(rest.partition("\n")[0].partition("。")[0], maxsplit=1)[0]
    sentence = _CLAUSE.sub("", VERB_AT_THE_END.sub("", sentence)).strip(" *")
    if not sentence.strip("."):
        return None
    return sentence if is_bare(sentence) else last_expression(sentence)


def is_bare(text: str) -> bool:
    """Return whether a text is an answer without a sentence: `5 cm`, `x = 3`, `\\frac{1}{2}`, `Evelyn`."""
    text = _LIMIT.sub("", text)
    if "\n\n" in text or len(text) > 2_000:
        return False
    outside, *marked = _MARKED.split(text, maxsplit=1)
    words, spans = _read_words(outside, most=MOST_WORDS), 0
    if marked and words is not None:
        outside, spans = _SPAN.subn(" ", text)
        outside = _COMMAND.sub(" ", outside)
        words = _read_words(outside, most=0 if spans else MOST_WORDS)
    if words is None:
        return False
    if digit := re.search(r"\d", outside):
        before = _PROSE.findall(outside[: digit.start()])
        return not any(_is_small(word) or (len(word) > 3 and not _is_name(word)) for word in before)
    return bool(spans) or not (_I_AM.search(outside) or any(map(_is_small, words)))


def _read_words(text: str, *, most: int) -> list[str] | None:
    """Return the words in a text; None where more than `most` of them are not names of functions or letters."""
    words: list[str] = []
    for match in _PROSE.finditer(text):
        words.append(match.group())
        most -= not _is_name(match.group())
        if most < 0:
            return None
    return words


def _is_small(word: str) -> bool:
    return word.lower().partition("'")[0] in _SMALL_WORDS


def _is_name(word: str) -> bool:
    """Return whether a word is the name of a function or of a letter."""
    return word.lower() in _NAMES


def _join_spans(text: str, first: re.Match[str]) -> str:
    """Return a span of mathematics with the spans joined to it by `and`, `or` or a comma."""
    parts, end = [_span_content(first)], first.end()
    while (joint := _BETWEEN.match(text, end)) and (span := _SPAN.match(text, joint.end())):
        parts.append(_span_content(span))
        end = span.end()
    unit = _PERCENT.match(text, end)
    return ", ".join(parts) + (unit.group().strip() if unit else "")


def _span_content(span: re.Match[str]) -> str:
    return next(group for group in span.groups() if group is not None).strip()


def last_expression(text: str) -> str | None:
    """Return the last mathematics or number in the last TAIL_CHARS, whichever is later; None where it has neither."""
    tail = text[-TAIL_CHARS:]
    tail = tail if tail.isascii() else join_myriads(tail)
    spans = list(_SPAN.finditer(tail))
    outside_from = spans[-1].end() if spans else 0
    number = _last_number(tail, outside_from)
    if number and (part := _OF_WHOLE.search(tail, max(outside_from, number.start() - 60), number.start())):
        tail = tail[: part.start() + 1]
        number = _last_number(tail, outside_from)
    if number:
        tuples = _TUPLE.finditer(tail, outside_from) if _CLOSING.search(tail, number.start()) else ()
        around = [match.group() for match in tuples if match.end() > number.start()]
        amounts = _AMOUNT.finditer(tail, max(outside_from, number.start() - 90))
        around = around or [match.group().strip() for match in amounts if match.end() > number.start()]
        return around[-1] if around else _formula_around(tail, number)  # (1, 2), whose last number is 2
    if not spans:
        return None
    index = len(spans) - 1
    while index and _BETWEEN.fullmatch(tail, spans[index - 1].end(), spans[index].start()):
        index -= 1
    return _join_spans(tail, spans[index])


def _last_number(text: str, start: int) -> re.Match[str] | None:
    """Return the last number from `start` on, with a `minus` before it or a `percent` behind it; None without one."""
    window = 250
    while True:
        letter = _ANY_LETTER.search(text, len(text) - window) if len(text) - window > start else None
        numbers = deque(_NUMBER.finditer(text, letter.start() if letter else start), maxlen=1)
        if numbers or letter is None:
            return numbers[0] if numbers else None
        window *= 8


def _formula_around(text: str, number: re.Match[str]) -> str:
    """Return the formula without dollars around a number: `3*sqrt(2)`, `x^2 + 1`; else the number."""
    begin = number.end() - len(number.group().lstrip())
    start = max(text.rfind("\n", 0, begin) + 1, begin - 200)
    line = text[start : number.end() + 200].partition("\n")[0]
    at = begin - start
    words = list(_WORD.finditer(line))
    first = last = next(index for index, word in enumerate(words) if word.end() > at)
    while first and _is_mathematical(words[first - 1].group()) and words[first - 1].group()[-1] not in ",.;:!?":
        first -= 1
    while (
        last + 1 < len(words) and words[last].group()[-1] not in ",.;:!?" and _is_mathematical(words[last + 1].group())
    ):
        last += 1
    while first < last and words[first].group() in ("a", "A", "I", "-", "+", "="):
        first += 1
    formula = line[words[first].start() : words[last].end()].strip(" .,;:!?*")
    if re.search(f"[{CJK}]", formula):
        return number.group().strip()
    before, _, behind = formula.partition(number.group().strip().lstrip("+-− "))
    if not _OPERATOR.search(before) and not _OPERATOR.search(behind) and (not behind or _UNIT.fullmatch(behind)):
        return number.group().strip()
    try:
        read_answer(normalize(formula))
    except (NotUnderstood, RecursionError):
        return number.group().strip()
    return formula


def _is_mathematical(word: str) -> bool:
    """Return whether a word is a piece of a formula: ASCII, with no letters in a row but names of functions."""
    return word.isascii() and not any(len(part) > 1 and not _is_name(part) for part in _LETTERS.findall(word))


def answer_in(text: str) -> str | None:
    """Return the answer in a bare answer or a whole response; None without one.

    `eval score --task math` takes both. Where none is announced, a text without sentences is the answer itself; of
    other texts it is the last mathematics.
    """
    visible = _strip_tokens(text)
    if visible is None:
        return None
    announced = _find_boxed_or_announced(visible)
    return announced if announced is not None else _find_unannounced(visible)


def _find_unannounced(visible: str) -> str | None:
    """Return a bare answer, else the last expression, else a last letter, else a text of SENTENCE_CHARS; else None."""
    if PLAIN_NUMBER.fullmatch(visible):
        return visible
    first = _SPAN.match(visible)
    if first and (first.end() == len(visible) or _CONDITION.match(visible, first.end())):
        return _span_content(first)
    if is_bare(visible):
        line = _choose_lines(visible)
        if line == visible or is_bare(line):
            return VERB_AT_THE_END.sub("", line)
        visible = line
    above, newline, line = visible.rpartition("\n")
    visible = above + newline + drop_denied(line) if len(line) <= SENTENCE_CHARS else visible
    bold = list(_BOLD.finditer(visible[-TAIL_CHARS:].rstrip().rpartition("\n\n")[2]))  # set off by many chat models
    if expression := bold[-1].group(1).strip() if bold else last_expression(visible):
        return expression
    if letter := _LAST_LETTER.search(visible[-50:]):
        return letter[1] or letter[2]
    return visible if len(visible) <= SENTENCE_CHARS else None


def _choose_lines(bare: str) -> str:
    """Return a value for each name of several lines, else the last; `bare` itself if it is one line or continues."""
    lines = [line.strip() for line in bare.splitlines() if line.strip()]
    if len(lines) < 2 or "\\begin" in bare or any(line.count("{") != line.count("}") for line in lines):
        return bare
    if any(line.rstrip().endswith(("=", ",", "\\", "+", "(", "[")) for line in lines[:-1]):
        return bare
    names = [re.match(r"\s*\\?([A-Za-z]\w{0,5})\s*=(?!=)", line) for line in lines]
    if all(names) and len({name.group(1) for name in names if name}) == len(lines):
        return ", ".join(lines)
    return lines[-1]
