"""The language and the case of a response, and its commas.

Words in capitals are cut as NLTK's `word_tokenize` would cut them.

Only words in capitals are counted, so punctuation that stands apart may as well be a space. What matters is where a
word is cut in two: `DON'T` is `DO` and `N'T`, `NASA's` is `NASA` and `'s`, `CANNOT` is `CAN` and `NOT`, while
`AND/OR`, `T-SHIRT` and `U.S.A.` are one each.
Source: NLTK's TreebankWordTokenizer and its revision NLTKWordTokenizer, by behaviour; tests/grading/rules has cases.
Known differences: a word with two clitics (`SHOULDN'T'VE`) may be cut at another place.
"""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

from tasks.grading.rules.rule_keywords import Relation, compares

if TYPE_CHECKING:
    from langdetect import DetectorFactory

import re
from collections.abc import Iterator

from tasks.grading.rules.rule_sentences import sentences

SEED = 0
READ_CHARS = 100_000
"""langdetect decides by 10,000 characters, but takes addresses out of all there are first."""
_loading = Lock()


def response_language(response: str, *, language: str) -> bool:
    """langdetect takes it for that language, or can tell none (digits only)."""
    return detected_language(response) in (language, None)


def english_capital(response: str) -> bool:
    """English, and without small letters."""
    return response.isupper() and response_language(response, language="en")


def english_lowercase(response: str) -> bool:
    """English, and without capital letters."""
    return response.islower() and response_language(response, language="en")


def capital_word_frequency(response: str, *, capital_frequency: int, capital_relation: Relation) -> bool:
    """It has enough, or few enough, words in capitals; `I` and `A` are such words."""
    return compares(capital_words(response), capital_relation, capital_frequency)


def no_comma(response: str) -> bool:
    """It has no comma; those of other scripts (`、`, `،`) are none."""
    return "," not in response


def detected_language(text: str) -> str | None:
    """langdetect's code for the language, `zh-cn` for one; None where the text has no features.

    langdetect draws n-grams at random: unseeded, as in the published grader, a mixed text may get another language
    the next time.
    """
    from langdetect import LangDetectException

    with _loading:
        detector = _detectors().create()
    detector.append(text[:READ_CHARS])
    try:
        return detector.detect()
    except LangDetectException:
        return None


@cache
def _detectors() -> DetectorFactory:
    """Our own, so that the seed does not depend on who else imports langdetect, and no thread sees it half loaded."""
    from langdetect.detector_factory import PROFILES_DIRECTORY, DetectorFactory

    factory = DetectorFactory()
    factory.load_profile(PROFILES_DIRECTORY)
    factory.set_seed(SEED)
    return factory


APART = re.compile(r"""[][(){}<>;@#$%&?!*"`«»“”‘’„\u2012-\u2015]|--|''|\.\.+|[:,](?!\d)|(?<!\w)'(?=\w)""")
TWO_IN_ONE = re.compile(
    r"\b(can(?=not\b)|gim(?=me\b)|gon(?=na\b)|got(?=ta\b)|lem(?=me\b)|wan(?=na(?!\S))|d(?='ye\b)|more(?='n\b))", re.I
)
CLITICS = ("'s", "'S", "'m", "'M", "'d", "'D", "'ll", "'LL", "'re", "'RE", "'ve", "'VE", "n't", "N'T", "'")
CLOSING = "])}>\"'»”’ \t\n\r\x0b\x0c"


def capital_words(text: str) -> Iterator[str]:
    """The words whose letters are all capitals, in order."""
    for sentence in sentences(text):
        spaced = TWO_IN_ONE.sub(r" \1 ", APART.sub(" ", _without_period(sentence)))
        for piece in spaced.split():
            if not piece.islower():
                yield from (word for word in _cut(piece) if word.isupper())


def _without_period(sentence: str) -> str:
    """The sentence without its last period; `IT'S.` would else be one word."""
    bare = sentence.rstrip(CLOSING)
    return bare[:-1] if bare.endswith(".") and not bare.endswith("..") else sentence


def _cut(piece: str) -> tuple[str, ...]:
    for clitic in CLITICS:
        stem = piece.removesuffix(clitic)
        if stem and stem != piece and stem[-1] != "'":
            return stem, clitic
    return (piece,)
