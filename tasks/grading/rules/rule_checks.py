"""IFEval's kinds of instructions: the arguments of each, and whether a response follows it.

Keywords are regular expressions and match inside longer words too, as in the published grader. Where its patterns for
format marks take quadratic time, the same matches are found in one pass here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

from tasks.grading.rules.rule_sentences import capital_words, sentences

if TYPE_CHECKING:
    from langdetect import DetectorFactory

ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
# `[^*]` also takes a line break: a lone asterisk and the line under it are one bullet
STAR_BULLET = re.compile(r"^[^\S\n]*+\*[^*].*$", re.M)
DASH_BULLET = re.compile(r"^[^\S\n]*+-.*$", re.M)
HIGHLIGHT = re.compile(r"\*([^\n*]*)\*")
DOUBLE_HIGHLIGHT = re.compile(r"\*\*([^\n*]*)\*\*")
POSTSCRIPTS = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
FENCES = ("```json", "```Json", "```JSON", "```")  # removed one after the other, as published
TWO_RESPONSES = "******"
DIVIDER = re.compile(r"\s?\*\*\*\s?")
END_OF_FIRST_WORD = re.compile(r"[.,?!'\"]")
SEED = 0
READ_CHARS = 100_000
"""langdetect decides by 10,000 characters, but first removes addresses from the whole text."""
_factory_lock = Lock()


def _compile(pattern: str) -> str:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"should be a word or a regular expression ({error})") from error
    return pattern


Count = Annotated[int, Field(strict=True, ge=0)]
Position = Annotated[int, Field(strict=True, ge=1)]
Relation = Literal["less than", "at least"]
Text = Annotated[str, Field(pattern=r"\S")]
Letter = Annotated[str, Field(pattern=r"^\S$")]
Pattern = Annotated[Text, AfterValidator(_compile)]
Patterns = Annotated[list[Pattern], Field(min_length=1)]


@cache
def arguments_of(check: Callable[..., bool]) -> type[BaseModel]:
    """Return the model of the arguments of a check besides the response."""
    hints = get_type_hints(check, include_extras=True)
    fields: dict[str, Any] = {name: (hint, ...) for name, hint in hints.items() if name not in ("response", "return")}
    return create_model(check.__name__, __config__=ConfigDict(extra="forbid"), **fields)


def has_enough(counted: Iterable[Any], relation: Relation, threshold: int) -> bool:
    """Return whether `counted` has at least, or less than, `threshold` members; it is read no further than needed."""
    reached = sum(1 for _ in islice(counted, threshold)) >= threshold
    return reached == (relation == "at least")


def existence(response: str, *, keywords: Patterns) -> bool:
    """Return whether the response contains every keyword, in any case."""
    return all(re.search(keyword, response, re.IGNORECASE) for keyword in keywords)


def frequency(response: str, *, keyword: Pattern, frequency: Count, relation: Relation) -> bool:
    """Return whether the keyword occurs often, or seldom, enough; `the` also occurs in `other`."""
    return has_enough(re.finditer(keyword.strip(), response, re.IGNORECASE), relation, frequency)


def forbidden_words(response: str, *, forbidden_words: Patterns) -> bool:
    """Return whether the response contains none of the words as a whole word, in any case."""
    return not any(re.search(rf"\b{word}\b", response, re.IGNORECASE) for word in forbidden_words)


def letter_frequency(response: str, *, letter: Letter, let_frequency: Count, let_relation: Relation) -> bool:
    """Return whether the letter, or sign such as `#`, occurs often, or seldom, enough, in any case."""
    return has_enough(re.finditer(re.escape(letter.lower()), response.lower()), let_relation, let_frequency)


def number_sentences(response: str, *, num_sentences: Count, relation: Relation) -> bool:
    """Return whether there are enough, or few enough, sentences; `1.` of a numbered list is one of its own."""
    return has_enough(sentences(response), relation, num_sentences)


def number_words(response: str, *, num_words: Count, relation: Relation) -> bool:
    """Return whether there are enough, or few enough, runs of letters, digits and underscores; `don't` is two."""
    return has_enough(re.finditer(r"\w+", response), relation, num_words)


def number_paragraphs(response: str, *, num_paragraphs: Count) -> bool:
    """Return whether `***` dividers make exactly that many paragraphs; only the first and the last may be empty."""
    paragraphs = [bool(paragraph.strip()) for paragraph in DIVIDER.split(response)]
    return all(paragraphs[1:-1]) and sum(paragraphs) == num_paragraphs


def nth_paragraph_first_word(
    response: str, *, num_paragraphs: Count, nth_paragraph: Position, first_word: Text
) -> bool:
    """Return whether there are exactly that many paragraphs between blank lines, and the nth starts with the word.

    Empty paragraphs are not counted, yet they hold their place when the nth is looked up.
    """
    paragraphs = response.split("\n\n")
    filled = sum(1 for paragraph in paragraphs if paragraph.strip())
    if filled != num_paragraphs or nth_paragraph > filled:
        return False
    words = paragraphs[nth_paragraph - 1].split(maxsplit=1)
    if not words:
        return False
    # without quotes before it, up to the first punctuation mark
    word = END_OF_FIRST_WORD.split(words[0].lstrip("'").lstrip('"'), maxsplit=1)[0]
    return "".join(letter.lower() for letter in word) == first_word.lower()


def number_placeholders(response: str, *, num_placeholders: Count) -> bool:
    """Return whether the response has at least that many `[placeholders]`."""
    return has_enough(_placeholders(response), "at least", num_placeholders)


def postscript(response: str, *, postscript_marker: Pattern) -> bool:
    """Return whether the response contains the marker, in any case."""
    marker = postscript_marker.strip()
    return re.search(POSTSCRIPTS.get(marker, marker.lower()), response.lower()) is not None


def number_bullet_lists(response: str, *, num_bullets: Count) -> bool:
    """Return whether exactly that many lines start with `*` or `-`, a rule `---` included."""
    return sum(1 for bullet in (STAR_BULLET, DASH_BULLET) for _ in bullet.finditer(response)) == num_bullets


def constrained_response(response: str) -> bool:
    """Return whether the response contains one of the three allowed answers, word for word."""
    return any(answer in response for answer in ANSWERS)


def number_highlighted_sections(response: str, *, num_highlights: Count) -> bool:
    """Return whether there are at least that many `*highlights*`; `**double**` counts once, `***triple***` twice."""
    highlights = (match[1] for pattern in (HIGHLIGHT, DOUBLE_HIGHLIGHT) for match in pattern.finditer(response))
    return has_enough(filter(str.strip, highlights), "at least", num_highlights)


def multiple_sections(response: str, *, section_spliter: Pattern, num_sections: Count) -> bool:
    """Return whether the response has at least that many headings `Section 1`."""
    return has_enough(re.finditer(rf"{section_spliter.strip()}\s?\d+", response), "at least", num_sections)


def json_format(response: str) -> bool:
    """Return whether the whole response is JSON, or one fenced block of JSON."""
    body = response.strip()
    for fence in FENCES:
        body = body.removeprefix(fence)
    try:
        json.loads(body.removesuffix("```").strip())
    except (ValueError, RecursionError):  # the latter by a million brackets
        return False
    return True


def title(response: str) -> bool:
    """Return whether the response has a `<<title>>` on one line, with something between the brackets."""
    for line in response.split("\n"):
        start, end = line.find("<<"), line.rfind(">>")
        if 0 <= start <= end - 3 and line[start : end + 2].lstrip("<").rstrip(">").strip():
            return True
    return False


def two_responses(response: str) -> bool:
    """Return whether the response is two different texts with `******` between them."""
    parts = [part.strip() for part in response.split(TWO_RESPONSES)]
    filled = [part for part in parts if part]
    return all(parts[1:-1]) and len(filled) == 2 and filled[0] != filled[1]


def repeat_prompt(response: str, *, prompt_to_repeat: Text) -> bool:
    """Return whether the response starts with the request, in any case."""
    return response.strip().lower().startswith(prompt_to_repeat.strip().lower())


def end_checker(response: str, *, end_phrase: Text) -> bool:
    """Return whether the response ends with the phrase, in any case; quotes around the whole do not matter."""
    return response.strip().strip('"').lower().endswith(end_phrase.strip().lower())


def quotation(response: str) -> bool:
    """Return whether straight double quotes stand around the whole response."""
    text = response.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


def _placeholders(response: str) -> Iterator[str]:
    """Yield texts such as `[…]` on one line, from an opening bracket to the next closing one."""
    for line in response.split("\n"):
        start = line.find("[")
        while start >= 0 and (end := line.find("]", start)) >= 0:
            yield line[start : end + 1]
            start = line.find("[", end)


def response_language(response: str, *, language: Text) -> bool:
    """Return whether langdetect takes the response for that language, `zh-cn`, or can tell none (digits only).

    It draws n-grams at random: unseeded, as in the published grader, a mixed text may get another language next time.
    """
    from langdetect import LangDetectException

    with _factory_lock:
        detector = _detector_factory().create()
    detector.append(response[:READ_CHARS])
    try:
        return detector.detect() == language
    except LangDetectException:
        return True


def english_capital(response: str) -> bool:
    """Return whether the response is English without small letters."""
    return response.isupper() and response_language(response, language="en")


def english_lowercase(response: str) -> bool:
    """Return whether the response is English without capital letters."""
    return response.islower() and response_language(response, language="en")


def capital_word_frequency(response: str, *, capital_frequency: Count, capital_relation: Relation) -> bool:
    """Return whether there are enough, or few enough, words in capitals; `I` and `A` are such words."""
    return has_enough(capital_words(response), capital_relation, capital_frequency)


def no_comma(response: str) -> bool:
    """Return whether the response has no comma; commas of other scripts (`、`, `،`) do not count."""
    return "," not in response


@cache
def _detector_factory() -> DetectorFactory:
    """Return a factory of our own, so that nobody else changes its seed and no thread sees it half loaded."""
    from langdetect.detector_factory import PROFILES_DIRECTORY, DetectorFactory

    factory = DetectorFactory()
    factory.load_profile(PROFILES_DIRECTORY)
    factory.set_seed(SEED)
    return factory


_BY_GROUP: Mapping[str, tuple[Callable[..., bool], ...]] = {
    "keywords": (existence, frequency, forbidden_words, letter_frequency),
    "language": (response_language,),
    "length_constraints": (number_sentences, number_paragraphs, number_words, nth_paragraph_first_word),
    "detectable_content": (number_placeholders, postscript),
    "detectable_format": (
        *(number_bullet_lists, constrained_response, number_highlighted_sections),
        *(multiple_sections, json_format, title),
    ),
    "combination": (two_responses, repeat_prompt),
    "startend": (end_checker, quotation),
    "change_case": (capital_word_frequency, english_capital, english_lowercase),
    "punctuation": (no_comma,),
}
KINDS = {f"{group}:{check.__name__}": check for group, checks in _BY_GROUP.items() for check in checks}
