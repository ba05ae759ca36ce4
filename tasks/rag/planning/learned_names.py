"""Learns the names of documents, as arrays that routing looks questions up in.

Learning a name takes dozens of regular expressions. A part of a catalogue always gives the same arrays, so they are
kept in a file under its digest: opening an index of 200,000 documents only joins the files of its parts. Texts that are
only compared are 64-bit hashes: among ten million names the chance that two share a hash is 3 in a million.
"""

from __future__ import annotations

import json
import os
import re
import time
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from storage import files
from storage.arrays import map_arrays, pack_arrays
from storage.lexical import hash_of
from storage.segments import Catalogue, CatalogueEntry
from storage.storage_errors import StoreUnreachable
from tasks.rag.planning.names import (
    CONNECTIVES,
    FIELDS,
    Period,
    Qualifiers,
    compact,
    core_words,
    document_names,
    name_words,
)

# Jamo as NFD writes them, in the order of Unicode: initial consonants, vowels, final consonants.
_INITIALS = "KKNTTLMPPSS-CCCKTPH"
_VOWELS = [*"aeaeoeoeo", "oa", "oe", "oe", "o", "u", "uo", "ue", "ui", "u", "u", "ui", "i"]
_FINALS = "KKKNNNTLLLLLLLLMPPTTNTTKTPT"
_HANGUL = {
    **{chr(0x1100 + at): sound.replace("-", "") for at, sound in enumerate(_INITIALS)},
    **{chr(0x1161 + at): sound for at, sound in enumerate(_VOWELS)},
    **{chr(0x11A8 + at): sound for at, sound in enumerate(_FINALS)},
}
_LATIN = [  # the first pattern that fits counts
    (r"^mc(?=[bcdfgklmnprst])", "MaK"),
    (r"^x", "C"),
    (r"^n(?=[bcdfgkpqstvz])", "eN"),
    (r"^ge(?=n)", "Ce"),
    (r"ph", "P"),
    (r"sch|sh|ssi(?=o)|ti(?=on)", "S"),
    (r"chs", "KS"),
    (r"t?ch", "C"),
    (r"ng(?![aeiou])|hn", "N"),
    (r"th", "S"),
    (r"ck|qu?", "K"),
    (r"c(?=[eiy])", "S"),
    (r"(?<=[aeiou])ge?(?=$)|dge?|g(?=y)|j|z", "C"),
    (r"x", "KS"),
    (r"r(?![aeiouy])", ""),
    (r"(?<=[aeiou])gh(?=[^aeiou]|$)", ""),
    (r"[bpfv]", "P"),
    (r"[dt]", "T"),
    (r"[gkc]", "K"),
    (r"[lr]", "L"),
    (r"(?<!^)h(?![aeiou])", ""),
    (r"y", "i"),
    (r"w", "u"),
    (r"[mnsh]", "="),
]
_SOUND = re.compile("|".join(f"({pattern})" for pattern, _ in _LATIN))
LEAST_LIKENESS = {3: 50, 2: 60}
"""Percent of the sounds, vowels included, that must agree, by the number of consonants: longer names need less."""
LEAST_OF_TWO_SYLLABLES = 90
"""Percent of the sounds that must agree in names of two syllables and two consonants, which ordinary words share."""


@lru_cache(maxsize=4_000)
def spell_sound(name: str) -> str:
    """Return roughly how a name sounds: capital consonants, small vowels; "" beyond Hangul and Latin letters."""
    runs = re.findall(r"[가-힣]+|[a-z]+", unicodedata.normalize("NFC", name.lower()))
    if not runs or len("".join(runs)) < len(re.sub(r"[\s.&'’-]", "", name)):
        return ""

    def latin(match: re.Match[str]) -> str:
        spoken = _LATIN[(match.lastindex or 1) - 1][1]
        return match[0].upper() if spoken == "=" else spoken

    letters = (unicodedata.normalize("NFD", run) for run in runs)
    phonemes = "".join(
        "".join(map(_HANGUL.__getitem__, run)) if run[0] > "z" else _SOUND.sub(latin, run) for run in letters
    )
    return re.sub(r"([A-Z])\1+", r"\1", phonemes)


def consonants_of(spoken: str) -> str:
    """Return the consonants of a sound, with `-` before them for a vowel at the start and without an s at the end."""
    consonants = re.sub(r"[a-z]", "", spoken)
    return f"{'-' if spoken[:1].islower() else ''}{consonants.removesuffix('S') if len(consonants) > 3 else consonants}"


def sounds_alike(korean: str, latin: str) -> bool:
    """Return whether a Korean name sounds like a Latin one: the same consonants, at least two; vowels much alike."""
    from rapidfuzz import fuzz

    korean_sound, latin_sound = spell_sound(korean), spell_sound(latin)
    consonants = len(consonants_of(korean_sound).strip("-"))
    if consonants < 2 or consonants_of(korean_sound) != consonants_of(latin_sound):
        return False
    least = LEAST_OF_TWO_SYLLABLES if consonants < 3 > len(korean.strip()) else LEAST_LIKENESS[min(3, consonants)]
    return fuzz.ratio(korean_sound, latin_sound) >= least


Kind = Literal["entity", "title", "id"]
MatchKind = Literal["full", "lead", "sound"]
"""How a spelling matches a name: whole, by its first words, or by its sound in Korean letters."""

KINDS: tuple[Kind, ...] = get_args(Kind)
MATCH_KINDS: tuple[MatchKind, ...] = get_args(MatchKind)
VERSION = 7
"""Version of the files of learned names; raised when the same entries would give other arrays."""
UNUSED_DAYS = 30
"""Days after which the file of a part that no index opens is removed."""
WHOLE, FOLDER = 2, 1
"""Weight of a word in a document's own names, in halves; FOLDER is that of a word in the name of a folder above it."""


class HashTable(NamedTuple):
    """Columns of values sorted by 64-bit hashes, with a twentieth of the memory of a dictionary of lists."""

    keys: NDArray[np.uint64]
    columns: tuple[NDArray[Any], ...]

    @classmethod
    def of(cls, hashes: NDArray[np.uint64], *columns: NDArray[Any]) -> HashTable:
        """Build the table; values of equal hashes stay in their order."""
        order = np.argsort(hashes, kind="stable")
        return cls(hashes[order], tuple(column[order] for column in columns))

    def get(self, hashed: int) -> tuple[NDArray[Any], ...]:
        """Return the values of a hash, a slice of each column; empty slices where it has none."""
        key = np.uint64(hashed)
        begin = end = int(self.keys.searchsorted(key))
        if begin < len(self.keys) and self.keys[begin] == key:
            end = int(self.keys.searchsorted(key, "right"))
        return tuple(column[begin:end] for column in self.columns)


class Learned(NamedTuple):
    """The names of documents; documents and names are identified by their positions."""

    said: NDArray[np.uint8]
    """The distinct qualifiers (periods and rounds) of all documents, as JSON."""
    said_of: NDArray[np.uint32]
    """For each document, the position of its qualifiers in `said`."""
    sames: NDArray[np.uint64]
    """For each document, a hash equal for documents that differ only in issuer, year or round; 0 where unknown."""
    dated: NDArray[np.uint8]
    """For each document, 1 if the documents of its `sames` differ in year."""
    owners: NDArray[np.uint64]
    """Hashes of issuers and projects; `owned` holds the document of each."""
    owned: NDArray[np.uint32]
    """The document of each entry of `owners`."""
    kinds: NDArray[np.uint8]
    """For each name, its position in KINDS."""
    fields: NDArray[np.uint8]
    """For each name, the position in FIELDS of where it comes from."""
    keys: NDArray[np.uint64]
    """For each name, the hash of its kind and compact spelling."""
    texts: NDArray[np.uint8]
    """The names as written, concatenated UTF-8; `text_ends` separates them."""
    text_ends: NDArray[np.uint32]
    """For each name, the offset in `texts` where it ends."""
    sounds: NDArray[np.uint64]
    """For each name, the hash of its consonants if it is an entity in Latin letters, else 0."""
    entity_words: NDArray[np.uint64]
    """Hashes of the words of entities; `entity_of_word` holds the name of each."""
    entity_of_word: NDArray[np.uint32]
    """The name that each entry of `entity_words` belongs to."""
    spellings: NDArray[np.uint64]
    """Hashes of all spellings of names, each in one word; `spelt` holds the name of each."""
    hows: NDArray[np.uint8]
    """For each spelling, the position in MATCH_KINDS of how it matches its name."""
    spelt: NDArray[np.uint32]
    """The name of each entry of `spellings`."""
    borne: NDArray[np.uint32]
    """Names that documents bear, one entry for each pair; `bearers` holds the document of each."""
    bearers: NDArray[np.uint32]
    """The document of each entry of `borne`, rising."""
    words: NDArray[np.uint8]
    """The distinct words of names, concatenated UTF-8; `word_ends` separates them."""
    word_ends: NDArray[np.uint32]
    """For each word, the offset in `words` where it ends."""
    word_hashes: NDArray[np.uint64]
    """For each word, its hash."""
    held: NDArray[np.uint32]
    """Words that the names of documents hold, one entry for each pair; `holders` holds the document of each."""
    holders: NDArray[np.uint32]
    """The document of each entry of `held`, rising."""
    weights: NDArray[np.uint8]
    """For each entry of `held`, WHOLE or FOLDER."""


_OF_DOCUMENTS = ("owned", "bearers", "holders")
_OF_NAMES = ("entity_of_word", "spelt", "borne")
_ENDS = {"text_ends": "texts", "word_ends": "words"}


def load_names(catalogue: Sequence[CatalogueEntry], *, kept_at: Path | None = None) -> Learned:
    """Return the names of a catalogue, read from the files of its parts where they are kept.

    kept_at: the folder of these files; missing ones are written there, unused ones removed. None learns all anew.
    """
    if kept_at is None or not isinstance(catalogue, Catalogue):
        return learn_entries(catalogue)
    parts: list[Learned] = []
    anew = False
    for digest, begin, end in catalogue.parts:
        path = kept_at / f"{digest}.{VERSION}"
        try:
            part = Learned(**map_arrays(path))
            os.utime(path)  # in use: UNUSED_DAYS count from now
        except (OSError, ValueError, TypeError, KeyError):  # there is no file, or it is none of ours
            part, anew = learn_entries(catalogue[at] for at in range(begin, end)), True
            with suppress(StoreUnreachable):  # a home that is full or read-only: learnt again next time
                files.write(path, pack_arrays(part._asdict()), durable=False)
        parts.append(part)
    for path in kept_at.iterdir() if anew and kept_at.is_dir() else ():
        if path.stat().st_mtime < time.time() - UNUSED_DAYS * 86_400:
            path.unlink(missing_ok=True)
    return join_parts(parts)


def learn_entries(entries: Iterable[CatalogueEntry]) -> Learned:
    """Return the names of these documents, learned one after the other."""
    pupil = _Pupil()
    for at, entry in enumerate(entries):
        pupil.learn(at, entry)
    return pupil.learned()


def join_parts(parts: Sequence[Learned]) -> Learned:
    """Return the names of all parts in one, with the documents of the first part first."""
    if not parts:
        return learn_entries(())
    documents = np.cumsum([0, *(len(part.said_of) for part in parts)])
    names = np.cumsum([0, *(len(part.kinds) for part in parts)])
    words = np.cumsum([0, *(len(part.word_ends) for part in parts)])
    shifts = dict.fromkeys(_OF_DOCUMENTS, documents) | dict.fromkeys(_OF_NAMES, names) | {"held": words}
    shifts |= {ends: np.cumsum([0, *(len(getattr(part, texts)) for part in parts)]) for ends, texts in _ENDS.items()}
    whole: dict[str, NDArray[Any]] = {}
    for field in Learned._fields:
        values = [getattr(part, field) for part in parts]
        if field in shifts:
            values = [array + np.uint32(shift) for array, shift in zip(values, shifts[field].tolist(), strict=False)]
        whole[field] = np.concatenate(values)
    # equal qualifiers of several parts become one
    numbers_of: dict[str, int] = {}
    said_of: list[NDArray[np.uint32]] = []
    for part in parts:
        encoded = map(json.dumps, json.loads(part.said.tobytes()))
        numbers = [numbers_of.setdefault(qualifiers, len(numbers_of)) for qualifiers in encoded]
        said_of.append(np.array(numbers, np.uint32)[part.said_of])
    whole["said"], whole["said_of"] = _bytes(f"[{','.join(numbers_of)}]"), np.concatenate(said_of)
    return Learned(**whole)


def qualifiers_in(encoded: NDArray[np.uint8]) -> list[Qualifiers]:
    """Return the qualifiers that `Learned.said` encodes, in its order."""
    return [
        Qualifiers(tuple(Period(*period) for period in periods), tuple(rounds))
        for periods, rounds in json.loads(encoded.tobytes())
    ]


def slice_texts(texts: NDArray[np.uint8], ends: NDArray[np.uint32], positions: Iterable[int]) -> list[str]:
    """Return some of the texts that lie one after the other in an array, those at `positions`."""
    return [
        texts[int(ends[at - 1]) if at else 0 : int(ends[at])].tobytes().decode("utf-8", "surrogatepass")
        for at in positions
    ]


class _Pupil:
    """Learns one document after the other into lists, a list for each field of `Learned`."""

    def __init__(self) -> None:
        self._said: dict[Qualifiers, int] = {}
        self._names: dict[tuple[Kind, str], int] = {}
        self._words: dict[str, int] = {}
        self._lists: dict[str, list[Any]] = {field: [] for field in Learned._fields}

    def learn(self, at: int, entry: CatalogueEntry) -> None:
        """Add the names, qualifiers, owners and words of the document at position `at`."""
        names, lists = document_names(entry), self._lists
        lists["said_of"].append(self._said.setdefault(names.qualifiers, len(self._said)))
        project = compact(name_words(entry.metadata.get("project_name", "")))
        owners = [compact(name_words(value)) for _, value in names.entities]
        series = project or (owners[0] if owners and names.qualifiers.periods else "")
        lists["sames"].append(hash_of(series) if series else 0)
        lists["dated"].append(not project and bool(series))
        every = [name for name in dict.fromkeys((project, *owners)) if name]
        lists["owners"] += map(hash_of, every)
        lists["owned"] += [at] * len(every)
        for field, value in names.entities:
            self._add(at, "entity", field, value)
        for field, value in names.titles:
            self._add(at, "title", field, value)
        notice = entry.metadata.get("notice_id", "")
        if len(notice) >= 5 and re.search(r"\d", notice):
            self._add(at, "id", "notice_id", notice)
        own = (word for _, value in (*names.entities, *names.titles) for word in core_words(value))
        weights = dict.fromkeys((word for word in own if len(word) > 1 or word.isascii()), WHOLE)
        for word in (word for folder in names.folders for word in core_words(folder)):
            weights.setdefault(word, FOLDER)
        for word, weight in weights.items():
            lists["held"].append(self._words.setdefault(word, len(self._words)))
            lists["holders"].append(at)
            lists["weights"].append(weight)

    def _add(self, at: int, kind: Kind, field: str, value: str) -> None:
        """Add a name of the document at position `at`, with its spellings if new; none of one sign, or digits alone."""
        words = core_words(value) if kind == "title" else name_words(value)
        key = compact(words)
        if len(key) < 2 or (key.isdigit() and kind != "id"):
            return
        lists = self._lists
        number = self._names.setdefault((kind, key), len(self._names))
        lists["borne"].append(number)
        lists["bearers"].append(at)
        if number < len(lists["kinds"]):
            return  # another document bears it too
        lists["kinds"].append(KINDS.index(kind))
        lists["fields"].append(FIELDS.index(field))
        lists["keys"].append(hash_of(f"{kind} {key}"))
        lists["texts"].append(value)
        heard = consonants_of(spell_sound(" ".join(words))) if kind == "entity" and key.isascii() else ""
        lists["sounds"].append(hash_of(heard) if heard else 0)
        if kind == "entity":
            lists["entity_words"] += map(hash_of, words)
            lists["entity_of_word"] += [number] * len(words)
        for spelling, match_kind in spellings(kind, key, value, words):
            lists["spellings"].append(hash_of(spelling))
            lists["hows"].append(MATCH_KINDS.index(match_kind))
            lists["spelt"].append(number)

    def learned(self) -> Learned:
        """Return everything learned so far, as arrays."""
        lists = self._lists
        qualifier_lists = [[qualifiers.periods, qualifiers.rounds] for qualifiers in self._said]
        arrays: dict[str, NDArray[Any]] = {"said": _bytes(json.dumps(qualifier_lists))}
        for ends, field in _ENDS.items():
            texts = self._words if field == "words" else lists[field]
            # lone surrogates, which UTF-8 refuses, are kept as they are
            encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
            arrays[field] = np.frombuffer(b"".join(encoded), np.uint8)
            arrays[ends] = np.cumsum([len(encoded_text) for encoded_text in encoded], dtype=np.uint32)
        arrays["word_hashes"] = np.array([hash_of(word) for word in self._words], np.uint64)
        hashes = ("sames", "owners", "keys", "sounds", "entity_words", "spellings")
        small = ("dated", "kinds", "fields", "hows", "weights")
        for field in Learned._fields:
            if field not in arrays:
                kind = np.uint64 if field in hashes else np.uint8 if field in small else np.uint32
                arrays[field] = np.array(lists[field], kind)
        return Learned(**arrays)


def _bytes(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)


def spellings(kind: Kind, key: str, value: str, words: Sequence[str]) -> Iterator[tuple[str, MatchKind]]:
    """Yield the ways to write a name in one word, each with how it matches the name."""
    yield key, "full"
    whole = compact(name_words(value))  # with numbers
    if whole != key:
        yield whole, "full"
    words = [word for word in words if word not in CONNECTIVES]
    if kind == "id":
        digits = re.sub(r"\D", "", key)
        if len(digits) >= 5 and digits != key:
            yield digits, "full"
    if kind != "entity" or len(words) < 2:
        return
    for size in range(1, len(words)):
        lead = "".join(words[:size])
        if len(lead) > 2 or is_hangul(lead):
            yield lead, "lead"


def is_hangul(text: str) -> bool:
    """Return whether the text begins with a Korean syllable."""
    return "가" <= text[:1] <= "힣"
