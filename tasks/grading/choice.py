"""Multiple choice: the letters that a response settles on; a box wins over statements, these over stray letters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, cast

from tasks.grading.grading_records import Item, Response, Sample
from tasks.grading.reading import (
    BOLD,
    FLEXIBLE,
    UNREAD,
    Readings,
    Rule,
    announcements,
    drop_denied,
    grade_readings,
    visible_answer,
    why_missing,
)

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
TAIL_CHARS = 20_000
"""The end of a response, where conclusions stand; the whole is read only if there is none."""
LONGEST_BOX = 2_000
LONGEST_LONE_LINE = 200
WINDOW_CHARS = 500
"""Characters that are read after the announcement of an answer."""
MOST_STATEMENTS = 100  # tried from the end: bounds the work on a response that repeats itself
PART_OF_ALL = 0.25
"""Credit for each of several right letters when some are left out and none is wrong; source: JEEBench."""


class Choice(NamedTuple):
    """The letters that a response settles on, and where it names them."""

    letters: str
    """One or more letters, in alphabetical order."""
    where: str
    """Where they were found: `box`, `statement`, `remark`; or `line`, `bold`, `prose`."""


class ChoiceQuestion(NamedTuple):
    """The letters and options among which a question lets the model choose."""

    letters: str
    options: tuple[str, ...] = ()
    """Texts of the options in the order of the letters; empty where the question itself holds them."""
    several: bool = False
    """Whether more than one may be right."""


def grade_choice(answered: Iterable[tuple[Item, Response]], rule: Rule = FLEXIBLE) -> Iterator[Sample]:
    """Yield a sample for each response, in order.

    `item.gold`: the letter, or several of them (`ACD`); `item.detail`: `options` as they were shown, `letters` where
    there are no options, `several` where more than one may be right, with partial credit.
    """
    return (grade_one(item, response, rule) for item, response in answered)


def grade_one(item: Item, response: Response, rule: Rule = FLEXIBLE) -> Sample:
    """Return the sample of one response: 1 for all right letters, PART_OF_ALL each for some of `several`, else 0."""
    question = read_question(item)
    gold_text = str(item.gold)
    gold = "".join(sorted(set(gold_text.upper()) & set(question.letters))) or _read_whole(gold_text, question) or ""
    readings, where = read_choices(response.text, question, rule)

    def grade(letters: str | None) -> dict[str, Any]:
        """Return the fields of the sample for the letters read; both None, which is `missing`, and empty score 0."""
        if not letters:
            reason = why_missing(response, "no option is named")
            missing = letters is None
            return {"score": 0.0, "extracted": letters, "gold": gold, "reason": reason, "missing": missing}
        some_left_out = question.several and set(letters) < set(gold)
        score = 1.0 if letters == gold else PART_OF_ALL * len(letters) if some_left_out else 0.0
        is_option = len(letters) == 1 and question.options  # of several letters no one text is the answer
        return {
            "score": score,
            "extracted": letters,
            "gold": gold,
            "reason": where.get(letters, "rule"),
            "detail": {"chosen": question.options[question.letters.index(letters)]} if is_option else {},
        }

    return grade_readings(rule, readings, item, response, grade)


class ChoiceReadings(NamedTuple):
    """The letters that each policy reads, and where the strict and the flexible policy found them."""

    readings: Readings
    where: dict[str, str]


def read_choices(response: str, question: ChoiceQuestion, rule: Rule) -> ChoiceReadings:
    """Return the letters that each policy reads in a response, all None where its reasoning was never closed."""
    visible = visible_answer(response)
    if visible is None:
        return ChoiceReadings(UNREAD, {})
    strict = find_choice(visible, question)
    flexible = strict or find_unannounced(visible, question)
    readings = rule.read(visible, strict and strict.letters, flexible and flexible.letters)
    where = {choice.letters: choice.where for choice in (flexible, strict) if choice}
    if readings.published and readings.published not in where:
        readings = readings._replace(published=_read_whole(readings.published, question))
    return ChoiceReadings(readings, where)


def read_question(item: Item) -> ChoiceQuestion:
    """Return the options and letters among which an item lets the model choose."""
    options = tuple(map(str, cast("Sequence[Any]", item.detail.get("options") or ())))
    letters = str(item.detail.get("letters") or LETTERS[: len(options)] or LETTERS)
    return ChoiceQuestion(letters, options, bool(item.detail.get("several")))


def find_choice(text: str, question: ChoiceQuestion) -> Choice | None:
    """Return the choice of the last box, else statement (`answer: B`), else remark (`B is right`); None without one."""
    if "box" in text:
        from tasks.grading.math.boxes import last_boxed

        box = last_boxed(text)
        if box is not None and len(box) <= LONGEST_BOX and (letters := _read_whole(box, question)):
            return Choice(letters, "box")
    for plain in map(strip_marks, (text[-TAIL_CHARS:], text) if len(text) > TAIL_CHARS else (text,)):
        for match in islice(STATES.backwards(plain), MOST_STATEMENTS):
            if DOUBTED.search(plain[max(0, match.start() - 40) : match.start()]):
                continue
            if letters := _read_statement(plain[match.end() : match.end() + WINDOW_CHARS], question):
                return Choice(letters, "statement")
        for sentence in _backward_sentences(plain):
            if remark := next(iter(_patterns(question.letters).remark.findall(sentence)[-1:]), None):
                number = NUMBERED.fullmatch(f"{remark[0]}번")
                letters = _read_number(number, question) if number else _collect_letters("".join(remark), question)
                if letters:
                    return Choice(letters, "remark")
    return None


def find_unannounced(text: str, question: ChoiceQuestion) -> Choice | None:
    """Return the last or first line's choice, else the last lone, bold or prose one (`I think it's B`); else None."""
    # terse answers are, or begin with, the letter
    for line in {text[-WINDOW_CHARS:].split("\n")[-1]: 1, text[:WINDOW_CHARS].split("\n")[0]: 1}:  # an ordered set
        if line.strip() and (letters := _read_whole(line, question)):
            return Choice(letters, "line")
    tail, patterns = text[-TAIL_CHARS:], _patterns(question.letters)
    plain = strip_marks(tail)
    for line in map(str.strip, reversed(plain.split("\n"))):
        if patterns.opens.match(line) and len(line) <= LONGEST_LONE_LINE and (alone := _read_lone(line, question)):
            return Choice(alone, "line")
    bold = (_read_lone(strip_marks(match[1]).strip(), question) for match in reversed(list(BOLD.finditer(tail))))
    if letters := next((alone for alone in bold if alone), None):
        return Choice(letters, "bold")
    for sentence in _backward_sentences(plain):
        if letters := {_collect_letters(match["letter"], question) for match in patterns.prose.finditer(sentence)}:
            return Choice(letters.pop(), "prose") if len(letters) == 1 else None
        ending = _CONCLUDES.search(sentence)
        if ending and (letter := _read_text(ending[1], question)):
            return Choice(letter, "prose")
    return None


def _backward_sentences(plain: str) -> Iterator[str]:
    """Yield the decided sentences of a text, the last first, without what they deny."""
    for sentence in reversed(_SENTENCE_END.split(plain)):
        if sentence and not _UNDECIDED.search(sentence[-WINDOW_CHARS:]):
            yield drop_denied(sentence[-WINDOW_CHARS:]).strip()


_SENTENCE_END = re.compile(r"(?<=[.!])\s+|(?<=[。！])|(?<=[?？])\s*|\n+")
_CONCLUDES = re.compile(r"^(?:therefore|thus|hence|so)\b.*\s(?:is|are|was|be)\s(?:the\s|an?\s)?(.+)$", re.IGNORECASE)
_UNDECIDED = re.compile(r"[?？]\s*$|\b(?:whether|could|might|may|either|doubt|unlikely)\b|중\s?하나", re.IGNORECASE)


def _read_lone(plain: str, question: ChoiceQuestion) -> str | None:
    """Return the capital letter that is a line or bold text, or labels an option's text there; None without one."""
    patterns = _patterns(question.letters)
    if patterns.lone.fullmatch(plain):
        return _collect_letters(plain.removesuffix(".").rpartition(" ")[2], question)
    match = patterns.label.fullmatch(plain)
    if match and canonicalize(match["rest"]) in _canonical_options(question.options):
        return match["closed"] or match["open"]
    return None


@lru_cache(maxsize=1_000)  # once for a question, not for each line that is compared with its options
def _canonical_options(options: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(canonicalize, options))


WRAPPER = re.compile(r"\\(?:text(?:bf|it|rm|sf)?|math(?:rm|bf|it|sf)|boldsymbol|bf|rm|left|right)(?![A-Za-z])")
_LATEX_SPACE = re.compile(r"\\[ ,;:!]")
_MARKS = b"{}$*_`\"'"
_TO_SPACE = bytes.maketrans(b"~", b" ")


def strip_marks(text: str) -> str:
    """Return `text` without marks of Markdown and LaTeX and all quotes, inside words too: `don't` is `dont`."""
    if "\\" in text:
        text = WRAPPER.sub("", text.replace("\\(", "").replace("\\)", "").replace("\\[", "").replace("\\]", ""))
        text = _LATEX_SPACE.sub(" ", text)
    # six times as fast as `str.translate`; no part of another character is an ASCII byte
    data = text.encode("utf-8", "surrogatepass").translate(_TO_SPACE, _MARKS)
    return data.decode("utf-8", "surrogatepass").replace("“", "").replace("”", "").replace("‘", "").replace("’", "")


def canonicalize(text: str) -> str:
    """Return `text` as options are compared: without marks, case, spaces and punctuation at either end."""
    plain = unicodedata.normalize("NFKC", strip_marks(text).replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac"))
    return "".join(plain.casefold().split()).strip(".,;:!")


STATES = announcements(
    r"""
    (?i:
      (?:\banswers?|\b(?:correct|right|best|final)\s(?:options?|choices?|statements?|letters?|ones?))
      (?:\s(?:choices?|options?|letters?))? (?:,?\s(?:to|for|of|in|here|then|that)\b[^.:\n]{0,60}?)?
      [ ]{0,3}
      (?: (?:is|are|was|would\ be|should\ be|must\ be|has\ to\ be|will\ be)
          (?:\ (?:(?!un)[a-z]{2,9}ly|therefore|thus|then|hence|indeed))? (?![A-Za-z])
        | [:：=→] | -{1,2}>? | (?=\n) | (?=\([A-Za-z]\)\.?\s*(?:\n|\Z)) )
    | \b(?:option|choice|solution)\s?[:：]
    )
    | \#{4} (?=\ ?\(?[A-Za-z]\b)
    | (?<![가-힣]) (?:정답|답안|답) (?:은|는|이)? (?=[\s:：=(①-⑩A-Za-z\d])
    | (?<!不)[选選] (?:[择擇]|[项項](?=[是为為:：]))? [是为為]? (?=[\s:：(①-⑩A-Z])
    | 答案 (?=[\s(①-⑩A-Z])
    """,
    ("answer", "correct", "right", "best", "final", "option", "choice", "solution", "####", "选", "選"),
    re.VERBOSE,
)
"""Matches a phrase that announces an answer; the answer follows the match."""
DOUBTED = re.compile(r"(?:doubt|unlikely|whether|not|n[’']t)\b[^.,:;\n]*$|不[能应该該]{1,2}$")
"""Before an announcement that is none: `I doubt that the answer is D`."""
CORRECTION = re.compile(
    r"(?:[.…,;?(—–-]\s?)\b(?:no|wait|actually|sorry|correction|rather|I\smean|scratch\sthat|on\s\w+\sthought|아니|等等|いや)\b[\s,:—–-]*",
    re.IGNORECASE,
)
ORDERED = ("①②③④⑤⑥⑦⑧⑨⑩", "ㄱㄴㄷㄹㅁㅂㅅㅇㅈㅊ", "가나다라마바사아자차", "ⓐⓑⓒⓓⓔⓕⓖⓗⓘⓙ")
"""Signs that label options in Korean, in order."""
NUMBERED = re.compile(
    rf"\(?(?:(?P<sign>[{ORDERED[0]}{ORDERED[3]}]|[{ORDERED[1]}](?!\s?[,·ㄱ-ㅎ])|(?<=\()[{ORDERED[2]}](?=\)))|(?P<number>\d{{1,2}})(?=\s?[번番]))\s?[번番]?\)?"
)
LEAD = r"(?:(?i:the|an|either|both)\s)?(?:(?i:options?|choices?|letters?|statements?|answers?|보기|선택지)\s?:?\s?)?"
BETWEEN = r"(?:\s?[,;&/+]\s?(?:(?:and|or)\s)?|\s(?:and|or|및)\s|[와과]\s|\s?(?=[(\[]))"
# no comma: behind one, only what is not a word is one more letter, see `begins`
WORD_BETWEEN = r"(?:\s?[&/+]\s?|\s?,?\s(?:and|or|및)\s|[와과]\s|\s?(?=[(\[]))"
AFTER = r"(?![A-Za-z0-9’+#]|-[a-z]|\.[A-Z]\.)"  # not the C of C++ or C#, the A of A-level, the U of U.S.
NOT_A_WORD = r"(?!\s{1,3}(?!(?:because|since|as|for|and|or|but|which|with|by|due|is|based)\b)[a-z])"
"""A and I are words too: `the answer is A` counts, `the answer is I think …` does not."""

_BEFORE_LETTER = (
    r"(?:\b(?i:is|be|to|with|as|only|so|but|then|that|therefore|thus|hence|say|says|sure|means|leaves|leaving"
    r"|think|guess|believe|definitely|probably|likely|makes|option|choice|answer|pick|choose|select),?\s?:?\s|[’']s\s|\b(?i:its|thats)\s|[—–:]\s?|(?=[(\[][A-Z][)\]])"
    r"|(?:보기|선택지|[은는이가로서면므니]),?\s|[是为は]\s?|選択肢\s?|(?:^|\s{2})(?=\S{1,3}(?:[가-힣ぁ-ん是]|[.!]?$|,\s(?:because|since|as)\b))|,\s(?=\S{1,3}[.!]?$))"
)
"""Words of grammar and signs behind which a letter is an option; behind a noun it is none: `vitamin C`."""


class _Patterns(NamedTuple):
    begins: re.Pattern[str]
    is_all: re.Pattern[str]
    small: re.Pattern[str]
    label: re.Pattern[str]
    opens: re.Pattern[str]
    lone: re.Pattern[str]
    alone: re.Pattern[str]
    remark: re.Pattern[str]
    prose: re.Pattern[str]


@lru_cache(maxsize=64)
def _patterns(letters: str) -> _Patterns:
    """Return the patterns for the letters of a question; A and I count only where they are no words."""
    words = "".join(letter for letter in letters if letter in "AI")
    unambiguous = "".join(letter for letter in letters if letter not in "AI")
    kinds = [f"[{unambiguous}]{AFTER}"] * bool(unambiguous) + [f"[{words}]{AFTER}{NOT_A_WORD}"] * bool(words)
    letter = rf"[(\[]?(?:{'|'.join(kinds)})[)\]]?"
    sign = rf"[(\[]?[{letters}{letters.lower()}][)\]]?"
    small = letters.lower()
    return _Patterns(
        begins=re.compile(
            rf"{LEAD}(?P<letters>{letter}(?:{WORD_BETWEEN}{letter}|\s?[,;]\s?{letter}{NOT_A_WORD}){{0,25}})"
        ),
        is_all=re.compile(rf"{LEAD}(?P<letters>{sign}(?:(?:{BETWEEN}|\s){sign}){{0,25}})\s?[.:!]?"),
        small=re.compile(rf"{LEAD}(?:[(\[](?P<closed>[{small}])[)\]]|(?P<last>[{small}])\s?[).]?\s*$)"),
        label=re.compile(
            rf"{LEAD}(?:[(\[](?P<closed>[{letters}])[)\]]:?|(?P<open>[{letters}])\s?[.):–-])\s?(?P<rest>(?!.*\s\(?[{letters}][.:)]\s)\S.*)",
            re.S,
        ),
        opens=re.compile(rf"{LEAD}[(\[]?[{letters}](?![A-Za-z])"),
        lone=re.compile(rf"(?i:option |choice |answer )?\(?[{letters}]\)?[.!]?"),
        alone=re.compile(rf"(?<![A-Za-z])[{letters}](?![A-Za-z])", re.I),
        remark=re.compile(
            rf"(?<![A-Za-z\d])\(?(?P<sign>[{letters}{ORDERED[0]}{ORDERED[1]}]|\d(?=[번番]))\)?(?:"
            r"(?:\s\([^()]{1,40}\)|\s[a-z]{3,12})?\s(?:is|(?:must|would)\sbe|seems|looks)\s(?:\w{2,9}\s){0,2}(?:correct|right|best|true|answer)\b"
            r"|\s?(?:[번番]|选?项)?\s?[이가은는が是]?\s?(?:정?답|맞|옳|적절|알맞|올바|[正適对對])|번(?:이라고|일\s?것|으로\s?하)|번?[을를を]\s?(?:선택|고[르릅]|골|選))"
            rf"|(?:\b(?:choose|pick|select|go\swith|opt\sfor)\s(?:(?:option|choice|answer)\s)?"
            rf"|(?i:therefore|thus|hence|so),?\s(?:option\s(?=[({letters}])|(?=\()))(?P<picked>{letter})"
        ),
        prose=re.compile(rf"{_BEFORE_LETTER}(?P<letter>{letter}){NOT_A_WORD}"),
    )


def _read_whole(text: str, question: ChoiceQuestion) -> str | None:
    """Return the letters that a box or a line names, by number or an option's text too; None where it names none."""
    plain, patterns = strip_marks(text).strip(), _patterns(question.letters)
    if match := patterns.is_all.fullmatch(plain):
        return _collect_letters(match["letters"], question)
    if question.several and re.fullmatch(rf"(?i:[{question.letters}]{{2,26}})", plain):
        return _collect_letters(plain, question)
    if match := NUMBERED.fullmatch(plain):
        return _read_number(match, question)
    if letters := _read_text(text, question):
        return letters
    match = patterns.label.fullmatch(plain)
    return match and (match["closed"] or match["open"])


def _read_statement(following: str, question: ChoiceQuestion) -> str | None:
    """Return the choice on the line of an announcement, or alone on the next that is not empty; None without one."""
    line, _, rest = following.partition("\n")
    stated = line.strip(" \t\r:：=→->#")
    if not stated:
        lines = [below for below in (line_below.strip(" \t\r#") for line_below in rest.split("\n")) if below]
        return _read_whole(lines[0], question) if lines else None
    stated = CORRECTION.split(drop_denied(stated))[-1].strip() or stated
    patterns = _patterns(question.letters)
    if question.several and (run := re.match(rf"\(?([{question.letters}]{{2,26}})(?![A-Za-z])", stated)):
        return _collect_letters(run[1], question)
    if match := patterns.begins.match(stated):
        return _collect_letters(match["letters"], question)
    if match := patterns.small.match(stated):
        return _collect_letters(match["closed"] or match["last"], question)
    if match := NUMBERED.match(stated):
        return _read_number(match, question)
    if letters := _read_text(stated, question) or _read_text(re.split(r"[.;]\s|,\s", stated)[0], question):
        return letters
    # `Answer: rules out C, leaving D`
    prose = [match["letter"] for part in _backward_sentences(stated) for match in patterns.prose.finditer(part)]
    if len(letters := {_collect_letters(letter, question) for letter in prose}) == 1:
        return letters.pop()
    # `정답: 3`, where no option holds a number
    bare = re.fullmatch(r"\(?(\d{1,2})\)?\s?(?:입니다|이다|다|임)?\.?", stated)
    if not bare or not question.options or any(any(map(str.isdigit, option)) for option in question.options):
        return None
    return _nth_letter(int(bare[1]), question)


def _read_number(match: re.Match[str], question: ChoiceQuestion) -> str | None:
    sign = match["sign"]
    number = next(signs.index(sign) + 1 for signs in ORDERED if sign in signs) if sign else int(match["number"])
    return _nth_letter(number, question)


def _nth_letter(number: int, question: ChoiceQuestion) -> str | None:
    """Return the letter of an option by its number, from 1 on; None where there are fewer."""
    return question.letters[number - 1] if 1 <= number <= len(question.letters) else None


def _read_text(text: str, question: ChoiceQuestion) -> str | None:
    canonical_text = canonicalize(text)
    options = zip(question.letters, _canonical_options(question.options), strict=False)
    equal_letters = (letter for letter, option in options if option == canonical_text)
    return next(equal_letters, None) if canonical_text else None


def _collect_letters(text: str, question: ChoiceQuestion) -> str:
    """Return the question's letters that stand alone in `text`, or any in it if none does; sorted, each once."""
    alone = _patterns(question.letters).alone.findall(text) or list(text)
    return "".join(sorted({letter.upper() for letter in alone} & set(question.letters)))
