"""Tokenizes text for BM25: English stems, Korean morphemes, and numbers, dates and ids kept whole.

Korean is split by kiwi where kiwipiepy is installed, else into pairs of syllables (MRR at 10 over 720 Korean pages:
spaces .722, pairs .889, kiwi .915). An index records its tokenizer's name, since questions must use the same one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from importlib import metadata
from itertools import chain, pairwise
from threading import Lock
from typing import Any

from storage.storage_errors import IndexUnusable
from tasks.language.marks import fold_raised
from tasks.language.number_words import month_number
from tasks.language.numbers import read_amount

BIGRAM = "bigram"
MOST_TEXTS = 20_000
"""Texts whose stems are in memory, some 20 MB, when they are forgotten."""

# Left out: rank-bm25's epsilon gives them a quarter of the average idf, more than many words with a meaning have.
_GRAMMAR = """
a an and are as at be been but by can could did do does for from had has have how if in into is it its may of
on or our shall should so such than that the their them then there these they this those to was we were what
when where which who whom whose why will with would you your
"""
FUNCTION_WORDS = frozenset(_GRAMMAR.split())
"""English function words, which are compared before stemming."""
LIGHT_VERBS = frozenset(["하", "되", "있", "이", "같", "위하", "대하", "따르", "통하", "관하", "의하", "않", "말"])
"""Stems of Korean verbs that any sentence may hold."""
CONTENT_TAGS = frozenset(["NNG", "NNP", "NR", "VV", "VA", "XR", "MAG"])
"""kiwi's (Sejong) tags of nouns, names, numerals, verbs, adjectives, roots and adverbs."""

NOUN_TAGS = frozenset(["NNG", "NNP"])

HANGUL = re.compile(r"[\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3]")
TOKEN = re.compile(
    r"""
    (?<![A-Za-z0-9_])(?P<currency>[$₩€£¥￦])?\s?
        (?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?P<unit>\s?[%‰°℃℉㎀-㏟Ω])?
        (?![A-Za-z0-9_]|[-./:][A-Za-z0-9])
    | (?P<id>(?=[A-Za-z]*(?:[-_./:][A-Za-z]+)*[-_./:]?\d)[A-Za-z0-9]+(?:[-_./:][A-Za-z0-9]+)*)
    | (?P<word>[^\W\d_\u1100-\u11ff\u3131-\u318e\u3400-\u9fff\uac00-\ud7a3]+(?:['’][A-Za-z]+)?)
    | (?P<hanja>[\u3400-\u9fff]+)
    | (?P<sign>[$₩€£¥￦%℃℉㎀-㏟])
    """,
    re.VERBOSE,
)
PARTS = re.compile(r"[A-Za-z]+|\d+")
DATE = re.compile(r"(?<!\d)(\d{4})\s?(?:[-./]\s?|년\s?)(\d{1,2})\s?(?:[-./]\s?|월\s?)(\d{1,2})(?!\d)")
ENGLISH_DATE = re.compile(
    r"\b(Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec)[a-z]*\.?\s(\d{1,2}),?\s(\d{4})\b", re.IGNORECASE
)
# not after 제, which makes an article of a law of it: 제2조
MYRIADS = re.compile(r"(?<![제\d.,])\d[\d,]*(?:\.\d+)?\s?[십백천만억조](?:\s?\d[\d,]*(?:\.\d+)?|\s?[십백천만억조])*")

_alone = Lock()


class WrongTokenizer(IndexUnusable):
    """The index was made with a Korean tokenizer that is not installed here."""


@cache
def installed_tokenizer() -> str:
    """Return `kiwi-` with its version, or `bigram`, from the installed packages: kiwi itself is not loaded."""
    try:
        return f"kiwi-{metadata.version('kiwipiepy')}"
    except metadata.PackageNotFoundError:
        return BIGRAM


def tokenize(texts: Sequence[str], *, tokenizer: str) -> list[list[str]]:
    """Return each text's tokens, those of Hangul after all others; batches are faster. Raises WrongTokenizer."""
    # a shell hands over bytes that are no UTF-8 as lone surrogates, which kiwi refuses
    composed = [fold_raised(unicodedata.normalize("NFC", text).encode(errors="replace").decode()) for text in texts]
    if tokenizer == BIGRAM:
        runs = re.compile(f"{HANGUL.pattern}+")
        return [[*_words(text), *chain.from_iterable(map(_pairs, runs.findall(text)))] for text in composed]
    hangul = [text for text in composed if HANGUL.search(text)]
    installed = installed_tokenizer() if hangul else tokenizer  # texts without Korean need no kiwi
    if tokenizer != installed:
        raise WrongTokenizer(
            f"the index splits Korean with {tokenizer}, "
            f"here is {'no kiwipiepy' if installed == BIGRAM else installed}; "
            f"run `pip install kiwipiepy=={tokenizer.removeprefix('kiwi-')}`, index again here, "
            "or search with --strategy similarity"
        )
    split: list[list[str]] = []
    if hangul:
        with _alone:  # steps run in threads, and kiwi has threads of its own
            split = [list(_content(morphemes)) for morphemes in _kiwi().tokenize(hangul)]
    korean = iter(split)
    return [[*_words(text), *(next(korean) if HANGUL.search(text) else ())] for text in composed]


def syllable_pairs(text: str) -> list[str]:
    """Return neighbouring syllables of Hangul as `예_산`, a form of no token: they find what kiwi splits in two."""
    runs = re.findall(f"{HANGUL.pattern}+", fold_raised(unicodedata.normalize("NFC", text)))
    return [f"{a}_{b}" for run in runs for a, b in pairwise(run)]


def drop_compounds(words: Sequence[str]) -> list[str]:
    """Return the words without compounds of those before them; a compound replaces parts if one is of one syllable."""
    parts_of: list[str] = []
    for word in words:
        counts = range(2, min(len(parts_of), len(word)) + 1)
        parts = next((parts_of[-count:] for count in counts if "".join(parts_of[-count:]) == word), [])
        if not parts:
            parts_of.append(word)
        elif any(len(part) == 1 for part in parts):
            parts_of[-len(parts) :] = [word]
    return parts_of


def _words(text: str) -> Iterator[str]:
    """Yield the tokens of a text other than Hangul; dates and amounts come in a normalised form too."""
    for match in TOKEN.finditer(text):
        match match.lastgroup:
            case "number" | "unit":
                digits = match["number"].replace(",", "")
                yield digits
                if match["currency"]:
                    yield match["currency"] + digits
                if match["unit"]:
                    yield digits + match["unit"].strip()
            case "id":
                yield match["id"].lower()
                yield from (part.lower() for part in PARTS.findall(match["id"]))
            case "word":
                word = match["word"].lower()
                if word not in FUNCTION_WORDS:
                    yield _stem(word)
            case "hanja":
                yield from _pairs(match["hanja"])
            case _:
                yield match["sign"]
    # every date as 2024-03-15
    for year, month, day in DATE.findall(text):
        if 1 <= int(month) <= 12 and 1 <= int(day) <= 31:
            yield f"{year}-{int(month):02d}-{int(day):02d}"
    for name, day, year in ENGLISH_DATE.findall(text):
        yield f"{year}-{month_number(name):02d}-{int(day):02d}"
    # numbers that are written with 만, 억 …, in digits: 3,575만 is 35750000
    for match in MYRIADS.finditer(text):
        amount = read_amount(text, match.start())
        if amount.multiplied and amount.value == int(amount.value):
            yield str(int(amount.value))


def _pairs(run: str) -> Iterator[str]:
    if len(run) == 1:
        yield run
    for a, b in pairwise(run):
        yield a + b


def _content(morphemes: Iterable[Any]) -> Iterator[str]:
    """Yield the content words of Korean morphemes, each number with its unit, and nouns joined to compounds."""
    number, nouns, end = "", list[str](), -1
    for morpheme in morphemes:
        tag = morpheme.tag.partition("-")[0]  # VA-I, VV-R: irregular, regular
        if tag not in NOUN_TAGS or morpheme.start != end:
            yield from _compound(nouns)
            nouns.clear()
        if tag in NOUN_TAGS:
            nouns.append(morpheme.form)
        if tag == "NNB" and number:
            yield number + morpheme.form  # 12개월: the number itself is among the words
        elif tag in CONTENT_TAGS and morpheme.form not in LIGHT_VERBS:
            yield morpheme.form
        number = morpheme.form.replace(",", "") if tag == "SN" else ""
        end = morpheme.start + morpheme.len
    yield from _compound(nouns)


def _compound(nouns: Sequence[str]) -> Iterator[str]:
    # kiwi splits an unknown name in one sentence and keeps it whole in another; whole, it is found in both
    if len(nouns) > 1:
        yield "".join(nouns)


@lru_cache(maxsize=1)
def _kiwi() -> Any:
    from kiwipiepy import Kiwi

    return Kiwi()


@lru_cache(maxsize=200_000)
def _stem(word: str) -> str:
    # not `stemmer()`, which may be a PyStemmer of other rules; one for each word, as it is not thread-safe
    from snowballstemmer.english_stemmer import EnglishStemmer

    return EnglishStemmer().stemWord(word.replace("’", "'"))


_split: dict[str, dict[str, tuple[str, ...]]] = {}


class Stems:
    """The stems of texts, English or Korean, without words of grammar; those of the last some thousand are kept."""

    def __init__(self, tokenizer: str | None) -> None:
        """tokenizer: the name of the tokenizer of the index."""
        self._tokenizer = tokenizer or BIGRAM
        self._stems = _split.setdefault(self._tokenizer, {})

    def add(self, texts: Iterable[str]) -> None:
        """Split many texts at once, which is faster for Korean. Raises WrongTokenizer."""
        if new := [text for text in dict.fromkeys(texts) if text not in self._stems]:
            if len(self._stems) > MOST_TEXTS:  # others may be reading the old ones
                self._stems = _split[self._tokenizer] = {}
            self._stems.update(zip(new, map(tuple, tokenize(new, tokenizer=self._tokenizer)), strict=True))

    def of(self, text: str) -> tuple[str, ...]:
        """Return the stems of a text in the order of `tokenize`. Raises WrongTokenizer."""
        if text not in self._stems:
            self.add([text])
        return self._stems[text]
