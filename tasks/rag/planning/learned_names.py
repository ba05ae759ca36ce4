"""What routing must know of the names of documents, as arrays: learnt from entries once, kept, and put together.

Learning a name takes dozens of regular expressions. A part of a catalogue always teaches the same, so that its arrays
are kept in a file under its digest: opening an index of 200,000 documents only joins those of its parts. Texts that
are only compared are 64-bit hashes: of ten million two are taken for one with a chance of 3 in a million.
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
"""Percent of the whole sounds, vowels too, that must agree, by the number of consonants: longer names have enough."""
LEAST_OF_TWO_SYLLABLES = 90
"""The same for names of two syllables and two consonants, of which ordinary words have as many."""


@lru_cache(maxsize=4_000)
def sound(name: str) -> str:
    """How a name is spoken, roughly: consonants in capitals, vowels small; empty with other letters than these."""
    runs = re.findall(r"[가-힣]+|[a-z]+", unicodedata.normalize("NFC", name.lower()))
    if not runs or len("".join(runs)) < len(re.sub(r"[\s.&'’-]", "", name)):
        return ""

    def latin(match: re.Match[str]) -> str:
        spoken = _LATIN[(match.lastindex or 1) - 1][1]
        return match[0].upper() if spoken == "=" else spoken

    letters = (unicodedata.normalize("NFD", run) for run in runs)
    told = "".join(
        "".join(map(_HANGUL.__getitem__, run)) if run[0] > "z" else _SOUND.sub(latin, run) for run in letters
    )
    return re.sub(r"([A-Z])\1+", r"\1", told)


def bones(told: str) -> str:
    """The consonants of a sound, after a sign where it begins with a vowel, without an s at the end."""
    consonants = re.sub(r"[a-z]", "", told)
    return f"{'-' if told[:1].islower() else ''}{consonants.removesuffix('S') if len(consonants) > 3 else consonants}"


def sounds_alike(korean: str, latin: str) -> bool:
    """Whether a Korean name spells a Latin one of the same `bones` by its sound."""
    from rapidfuzz import fuzz

    own, other = sound(korean), sound(latin)
    consonants = len(bones(own).strip("-"))
    if consonants < 2 or bones(own) != bones(other):
        return False
    least = LEAST_OF_TWO_SYLLABLES if consonants < 3 > len(korean.strip()) else LEAST_LIKENESS[min(3, consonants)]
    return fuzz.ratio(own, other) >= least


Kind = Literal["entity", "title", "id"]
How = Literal["full", "lead", "sound"]
"""How a spelling matches a name: whole, by its first words, or in Korean letters."""

KINDS: tuple[Kind, ...] = get_args(Kind)
HOWS: tuple[How, ...] = get_args(How)
VERSION = 6
"""Of the files; raised when the same entries would teach something else."""
UNUSED_DAYS = 30
"""After which the file of a part is removed."""
WHOLE, FOLDER = 2, 1
"""Weight of a word in a document's own names and in the name of a folder of its, in halves."""


class HashTable(NamedTuple):
    """Columns of values by 64-bit hashes, in their order: a twentieth of the memory of a dictionary of lists."""

    keys: NDArray[np.uint64]
    columns: tuple[NDArray[Any], ...]

    @classmethod
    def of(cls, hashes: NDArray[np.uint64], *columns: NDArray[Any]) -> HashTable:
        """Values of equal hashes stay in their order."""
        order = np.argsort(hashes, kind="stable")
        return cls(hashes[order], tuple(column[order] for column in columns))

    def get(self, hashed: int) -> tuple[NDArray[Any], ...]:
        """The values of a hash, a part of each column; empty where there are none."""
        key = np.uint64(hashed)
        begin = end = int(self.keys.searchsorted(key))
        if begin < len(self.keys) and self.keys[begin] == key:
            end = int(self.keys.searchsorted(key, "right"))
        return tuple(column[begin:end] for column in self.columns)


class Learned(NamedTuple):
    """The names of documents; documents and names are identified by their positions."""

    said: NDArray[np.uint8]
    """Different qualifiers, as JSON."""
    said_of: NDArray[np.uint32]
    """Per document."""
    sames: NDArray[np.uint64]
    """Per document, equal for those that differ only in issuer, year or round; 0 where nothing is known."""
    dated: NDArray[np.uint8]
    """Per document, whether those differ in year."""
    owners: NDArray[np.uint64]
    """Issuers and projects, in one spelling …"""
    owned: NDArray[np.uint32]
    """… and the documents that have them."""
    kinds: NDArray[np.uint8]
    """Per name."""
    fields: NDArray[np.uint8]
    keys: NDArray[np.uint64]
    """Of kind and compact spelling."""
    texts: NDArray[np.uint8]
    """As written, one after the other."""
    text_ends: NDArray[np.uint32]
    sounds: NDArray[np.uint64]
    """Of entities in Latin letters; 0 for others."""
    entity_words: NDArray[np.uint64]
    """Words of entities …"""
    entity_of_word: NDArray[np.uint32]
    """… and their names."""
    spellings: NDArray[np.uint64]
    hows: NDArray[np.uint8]
    spelt: NDArray[np.uint32]
    """The name of each spelling."""
    borne: NDArray[np.uint32]
    """Names …"""
    bearers: NDArray[np.uint32]
    """… and the documents that bear them, by document."""
    words: NDArray[np.uint8]
    """Different words of names, one after the other."""
    word_ends: NDArray[np.uint32]
    word_hashes: NDArray[np.uint64]
    held: NDArray[np.uint32]
    """Words …"""
    holders: NDArray[np.uint32]
    """… and the documents whose names hold them, by document."""
    weights: NDArray[np.uint8]


_OF_DOCUMENTS = ("owned", "bearers", "holders")
_OF_NAMES = ("entity_of_word", "spelt", "borne")
_ENDS = {"text_ends": "texts", "word_ends": "words"}


def learned(catalogue: Sequence[CatalogueEntry], *, kept_at: Path | None = None) -> Learned:
    """The names of a catalogue; what its parts teach is read from files in a folder, and put there, if one is given."""
    if kept_at is None or not isinstance(catalogue, Catalogue):
        return learn(catalogue)
    parts: list[Learned] = []
    anew = False
    for digest, begin, end in catalogue.parts:
        path = kept_at / f"{digest}.{VERSION}"
        try:
            part = Learned(**map_arrays(path))
            os.utime(path)
        except (OSError, ValueError, TypeError, KeyError):  # there is no file, or it is none of ours
            part, anew = learn(catalogue[at] for at in range(begin, end)), True
            with suppress(StoreUnreachable):  # a home that is full or read-only: learnt again next time
                files.write(path, pack_arrays(part._asdict()), durable=False)
        parts.append(part)
    for path in kept_at.iterdir() if anew and kept_at.is_dir() else ():
        if path.stat().st_mtime < time.time() - UNUSED_DAYS * 86_400:
            path.unlink(missing_ok=True)
    return join(parts)


def learn(entries: Iterable[CatalogueEntry]) -> Learned:
    """The names of these documents."""
    pupil = _Pupil()
    for at, entry in enumerate(entries):
        pupil.learn(at, entry)
    return pupil.learned()


def join(parts: Sequence[Learned]) -> Learned:
    """The names of all documents, those of the first part first."""
    if not parts:
        return learn(())
    documents = np.cumsum([0, *(len(part.said_of) for part in parts)])
    names = np.cumsum([0, *(len(part.kinds) for part in parts)])
    words = np.cumsum([0, *(len(part.word_ends) for part in parts)])
    shifts = dict.fromkeys(_OF_DOCUMENTS, documents) | dict.fromkeys(_OF_NAMES, names) | {"held": words}
    shifts |= {ends: np.cumsum([0, *(len(getattr(part, of)) for part in parts)]) for ends, of in _ENDS.items()}
    whole: dict[str, NDArray[Any]] = {}
    for field in Learned._fields:
        values = [getattr(part, field) for part in parts]
        if field in shifts:
            values = [one + np.uint32(by) for one, by in zip(values, shifts[field].tolist(), strict=False)]
        whole[field] = np.concatenate(values)
    # equal qualifiers of several parts become one
    known: dict[str, int] = {}
    said_of: list[NDArray[np.uint32]] = []
    for part in parts:
        places = [known.setdefault(json.dumps(one), len(known)) for one in json.loads(part.said.tobytes())]
        said_of.append(np.array(places, np.uint32)[part.said_of])
    whole["said"], whole["said_of"] = _bytes(f"[{','.join(known)}]"), np.concatenate(said_of)
    return Learned(**whole)


def qualifiers_in(said: NDArray[np.uint8]) -> list[Qualifiers]:
    """Those of `Learned.said`."""
    return [
        Qualifiers(tuple(Period(*period) for period in periods), tuple(rounds))
        for periods, rounds in json.loads(said.tobytes())
    ]


def texts_in(texts: NDArray[np.uint8], ends: NDArray[np.uint32], which: Iterable[int]) -> list[str]:
    """Some of the texts that lie one after the other."""
    return [
        texts[int(ends[at - 1]) if at else 0 : int(ends[at])].tobytes().decode("utf-8", "surrogatepass") for at in which
    ]


class _Pupil:
    """Learns one document after the other."""

    def __init__(self) -> None:
        self._said: dict[Qualifiers, int] = {}
        self._names: dict[tuple[Kind, str], int] = {}
        self._words: dict[str, int] = {}
        self._lists: dict[str, list[Any]] = {field: [] for field in Learned._fields}

    def learn(self, at: int, entry: CatalogueEntry) -> None:
        names, told = document_names(entry), self._lists
        told["said_of"].append(self._said.setdefault(names.said, len(self._said)))
        project = compact(name_words(entry.metadata.get("project_name", "")))
        owners = [compact(name_words(value)) for _, value in names.entities]
        same = project or (owners[0] if owners and names.said.periods else "")
        told["sames"].append(hash_of(same) if same else 0)
        told["dated"].append(not project and bool(same))
        every = [name for name in dict.fromkeys((project, *owners)) if name]
        told["owners"] += map(hash_of, every)
        told["owned"] += [at] * len(every)
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
            told["held"].append(self._words.setdefault(word, len(self._words)))
            told["holders"].append(at)
            told["weights"].append(weight)

    def _add(self, at: int, kind: Kind, field: str, value: str) -> None:
        words = core_words(value) if kind == "title" else name_words(value)
        key = compact(words)
        if len(key) < 2 or (key.isdigit() and kind != "id"):
            return
        told = self._lists
        number = self._names.setdefault((kind, key), len(self._names))
        told["borne"].append(number)
        told["bearers"].append(at)
        if number < len(told["kinds"]):
            return  # another document bears it too
        told["kinds"].append(KINDS.index(kind))
        told["fields"].append(FIELDS.index(field))
        told["keys"].append(hash_of(f"{kind} {key}"))
        told["texts"].append(value)
        heard = bones(sound(" ".join(words))) if kind == "entity" and key.isascii() else ""
        told["sounds"].append(hash_of(heard) if heard else 0)
        if kind == "entity":
            told["entity_words"] += map(hash_of, words)
            told["entity_of_word"] += [number] * len(words)
        for spelling, how in spellings(kind, key, value, words):
            told["spellings"].append(hash_of(spelling))
            told["hows"].append(HOWS.index(how))
            told["spelt"].append(number)

    def learned(self) -> Learned:
        """All that was learnt."""
        told = self._lists
        said = [[one.periods, one.rounds] for one in self._said]
        arrays: dict[str, NDArray[Any]] = {"said": _bytes(json.dumps(said))}
        for ends, of in _ENDS.items():
            encoded = [text.encode("utf-8", "surrogatepass") for text in (self._words if of == "words" else told[of])]
            arrays[of] = np.frombuffer(b"".join(encoded), np.uint8)
            arrays[ends] = np.cumsum([len(one) for one in encoded], dtype=np.uint32)
        arrays["word_hashes"] = np.array([hash_of(word) for word in self._words], np.uint64)
        hashes = ("sames", "owners", "keys", "sounds", "entity_words", "spellings")
        small = ("dated", "kinds", "fields", "hows", "weights")
        for field in Learned._fields:
            if field not in arrays:
                kind = np.uint64 if field in hashes else np.uint8 if field in small else np.uint32
                arrays[field] = np.array(told[field], kind)
        return Learned(**arrays)


def _bytes(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)


def spellings(kind: Kind, key: str, value: str, words: Sequence[str]) -> Iterator[tuple[str, How]]:
    """The ways to write a name in one word, and how they match it."""
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
    """Whether it begins with a Korean letter."""
    return "가" <= text[:1] <= "힣"
