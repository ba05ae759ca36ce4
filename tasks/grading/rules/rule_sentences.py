"""Sentences as NLTK's Punkt model for English finds them, without its data, and the words in capitals in them.

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
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

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
    for clitic in CLITICS:
        stem = piece.removesuffix(clitic)
        if stem and stem != piece and stem[-1] != "'":
            return stem, clitic
    return (piece,)


_LISTS: dict[str, list[str]] = json.loads(Path(__file__).with_name("rule_words.json").read_text("utf-8"))
_WORDS = {kind: frozenset(" ".join(lines).split()) for kind, lines in _LISTS.items()}
ABBREVIATED_LETTERS = frozenset("cdefghklmnprstvw")
"""After these single letters with a period no sentence ends, not even `vitamin C. It helps.`"""

ABBREVIATIONS = _WORDS["abbreviations"]
BEGINNERS = _WORDS["beginners"]
"""Lower case inside sentences, so that a capital means that one begins."""
ORDINARY = _WORDS["ordinary"]
"""Also parts of names (`New`, `Board`), so that they prove a beginning only after an initial."""
