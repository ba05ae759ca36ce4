"""Names of one alphabet in the letters of another: 월마트 is Walmart, by the consonants that both are spoken with.

Korean writes foreign names by their sound (외래어 표기법): vowels stand between all consonants, and an r that no vowel
follows is silent. Voiced and voiceless consonants are one here.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

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
    told = "".join(_hangul(run) if run[0] >= "가" else _latin(run) for run in runs)
    return re.sub(r"([A-Z])\1+", r"\1", told)


def _hangul(run: str) -> str:
    return "".join(_HANGUL[sign] for sign in unicodedata.normalize("NFD", run))


def _latin(run: str) -> str:
    def told(match: re.Match[str]) -> str:
        spoken = _LATIN[(match.lastindex or 1) - 1][1]
        return match[0].upper() if spoken == "=" else spoken

    return _SOUND.sub(told, run)


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
