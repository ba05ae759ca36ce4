"""IFEval's kinds of instructions: the arguments of each, and whether a response follows it.

Keywords are regular expressions and match inside longer words too, as in the published grader. Where its patterns for
format marks take quadratic time, the same matches are found in one pass here.

Sentences are those of NLTK's Punkt model for English, without its data, and so are the words in capitals in them.
A `.`, `?` or `!` ends a sentence where white space or one of a few marks follows, unless its word is an abbreviation,
an initial or a number and the next word does not look like a beginning; `1.` of a list, `e.g.` and `**done.**` end one.
Source: Kiss & Strunk 2006, Computational Linguistics 32(4); measured against NLTK 3.10, which, unlike earlier ones,
also cuts before curly quotes. The words are common ones, sorted by how its Punkt (newspapers of 1987) treats them.
Known differences: Punkt knows the case of 20,000 words, we of 1,200, so that after an abbreviation, an initial or
three dots a rarer word may be taken for a name; its few name pairs and some 80 rare initials (`W.R.`) are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

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

SPACE = r" \t\n\r\x0b\x0c"
MARK = r"""[)";}\]*:@'({\[?!‘’“”«»]"""
"""Ends a word without a space."""
STOP = rf"{MARK}|--|\.\.|,(?=\s|$|{MARK}|--|\.\.)"

# from the start of a word to its last `.?!` that may end a sentence, so that each word is read once; a word that begins
# with such a mark, like a lone `!!`, is cut after it too
BEGINNING = rf"(?:\A|(?<=[{SPACE}]))"
CANDIDATE = re.compile(
    rf"{BEGINNING}[.?!](?={MARK})|(?:{BEGINNING}|(?<=\A[.?!])|(?<=[{SPACE}][.?!]))[^{SPACE}]*[.?!](?={MARK}|\s)"
)
FOLLOWING = re.compile(rf"{MARK}|\s+\S+")
TOKEN = re.compile(rf"--+|\.\.+|[^\s(\"`{{\[:;&#*@)}}\]\-,](?:(?!{STOP})\S)*|\S")
CLOSING = re.compile(r"""(["')\]}‘’“”«»]+)(?:\s+|(?=--)|\Z)""")
NUMBER = re.compile(r"[.,]?\d[\d,.-]*")

APART = re.compile(r"""[][(){}<>;@#$%&?!*"`«»“”‘’„\u2012-\u2015]|--|''|\.\.+|[:,](?!\d)|(?<!\w)'(?=\w)""")
TWO_IN_ONE = re.compile(
    r"\b(can(?=not\b)|gim(?=me\b)|gon(?=na\b)|got(?=ta\b)|lem(?=me\b)|wan(?=na(?!\S))|d(?='ye\b)|more(?='n\b))", re.I
)
CLITICS = ("'s", "'S", "'m", "'M", "'d", "'D", "'ll", "'LL", "'re", "'RE", "'ve", "'VE", "n't", "N'T", "'")
END = "])}>\"'»”’ \t\n\r\x0b\x0c"

_LISTS: dict[str, list[str]] = json.loads(Path(__file__).with_name("rule_words.json").read_text("utf-8"))
_WORDS = {kind: frozenset(" ".join(lines).split()) for kind, lines in _LISTS.items()}
ABBREVIATED_LETTERS = frozenset("cdefghklmnprstvw")
"""After these single letters with a period no sentence ends, not even `vitamin C. It helps.`"""

ABBREVIATIONS = _WORDS["abbreviations"]
BEGINNERS = _WORDS["beginners"]
"""Lower case inside sentences, so that a capital means that one begins."""
ORDINARY = _WORDS["ordinary"]
"""Also parts of names (`New`, `Board`), so that they prove a beginning only after an initial."""


def _compile(pattern: str) -> str:
    """Return the pattern. Raises ValueError for one that is no regular expression."""
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
    """Return whether `section_spliter` stands before a number at least that often, as in `Section 1`."""
    return has_enough(re.finditer(rf"{section_spliter.strip()}\s?\d+", response), "at least", num_sections)


def json_format(response: str) -> bool:
    """Return whether the whole response is JSON, or one block of it, fenced by ``` before it, behind it or both."""
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

    langdetect draws n-grams at random: seeded here, so that a text keeps its language, but not in the published grader.
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


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, closing quotes and brackets with the sentence they close."""
    text = text.rstrip()
    start = 0
    for candidate in CANDIDATE.finditer(text):
        following = FOLLOWING.match(text, candidate.end())
        # the last token belongs to what follows
        if following and any(_ends_sentence(*pair) for pair in pairwise(TOKEN.findall(candidate[0] + following[0]))):
            end = after = candidate.end()
            while text[after].isspace():
                after += 1
            if closing := CLOSING.match(text, after):  # marks that close what the sentence opened
                end, after = closing.end(1), closing.end()
            yield text[start:end]
            start = after
    if start < len(text):
        yield text[start:]


def _ends_sentence(token: str, following: str) -> bool:
    """Return whether a sentence ends with a token, by Punkt's rules for abbreviations, initials and numbers."""
    if token in (".", "?", "!"):
        return True
    if not token.endswith("."):
        return False
    if token.endswith(".."):
        return _is_beginning(following)
    word = token[:-1].lower()
    if NUMBER.fullmatch(word):
        return not _is_continuation(following)
    if len(word) == 1 and word.isalpha():
        return word not in ABBREVIATED_LETTERS and not _is_continuation(following) and not _is_name(following)
    if word in ABBREVIATIONS or word.rpartition("-")[2] in ABBREVIATIONS:
        return _is_beginning(following)
    return True


def _is_continuation(token: str) -> bool:
    """Return whether no sentence begins with the word."""
    return token in (";", ":", ",", ".", "!", "?") or token[0].islower()


def _is_beginning(token: str) -> bool:
    """Return whether a word is in capitals only because a sentence begins with it."""
    return token[0].isupper() and token.removesuffix(".").lower() in BEGINNERS


def _is_name(token: str) -> bool:
    if token == "I":  # begins many sentences, but is always a capital
        return True
    return token[0].isupper() and not _is_beginning(token) and token.removesuffix(".").lower() not in ORDINARY


def capital_words(text: str) -> Iterator[str]:
    """Yield the words whose letters are all capitals, in order, cut as NLTK's `word_tokenize` cuts them.

    `DON'T` is `DO` and `N'T`, `NASA's` is `NASA` and `'s`, `CANNOT` is `CAN` and `NOT`, while `AND/OR`, `T-SHIRT` and
    `U.S.A.` are one each. Source: NLTK's TreebankWordTokenizer and NLTKWordTokenizer, by behaviour.
    Known differences: a word with two clitics (`SHOULDN'T'VE`) may be cut at another place.
    """
    for sentence in sentences(text):
        bare = sentence.rstrip(END)
        if bare.endswith(".") and not bare.endswith(".."):  # with its period `IT'S.` would be one word
            sentence = bare[:-1]
        spaced = TWO_IN_ONE.sub(r" \1 ", APART.sub(" ", sentence))
        for piece in spaced.split():
            if not piece.islower():
                yield from (word for word in _split_clitic(piece) if word.isupper())


def _split_clitic(piece: str) -> tuple[str, ...]:
    """Return a word and its clitic, `do` and `n't`; the whole piece alone where it has none."""
    for clitic in CLITICS:
        stem = piece.removesuffix(clitic)
        if stem and stem != piece and stem[-1] != "'":
            return stem, clitic
    return (piece,)


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
