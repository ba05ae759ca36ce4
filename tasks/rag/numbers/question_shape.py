"""Parses a question for a value: the lines that it names, and its skeleton, the question without them.

"By how much did domestic sales of Marlow Mills grow from 2018 to 2019?" names one line, "domestic sales", and its
skeleton is "By how much did ¤ grow". A word before a line, or after it with a preposition, is part of its name.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import NamedTuple

from tasks.rag.numbers.concepts import Mention, mentions
from tasks.rag.numbers.expressions import NAME_BRACKETS, YEARS, Line
from tasks.rag.numbers.periods import PART_SAID
from tasks.rag.planning.type_words import compile_filled, without_particles

WORDS = tomllib.loads((files("tasks.rag.numbers") / "computation_words.toml").read_text("utf-8"))


def any_of(name: str) -> re.Pattern[str]:
    """Compile the pattern of that name in `computation_words.toml`, or several of them to one."""
    words = WORDS[name]
    pattern = words if isinstance(words, str) else "|".join(f"(?:{each})" for each in words)
    return compile_filled(pattern, WORDS["parts"], re.IGNORECASE)


LINE, NAME, OWNER = "¤", "‡", "†"
"""Marks in a skeleton for a line, for the name of a document, and for such a name with an apostrophe."""
SPOKEN = frozenset(WORDS["spoken"].split())
"""Words of a question that do not change what is asked for."""
CLASSES = {word: sign for sign, words in WORDS["classes"].items() for word in words.split()}
"""Words that join a line and its qualifiers: o of, a and, p prepositions, t articles, s segments, E exceptions."""
KOREAN_VERB = re.compile(WORDS["korean_verb"])
SENTENCE = re.compile(r"(?<=[.?!:;。])\s+(?=[^\s\d(])")
CLAUSE = re.compile(r"(?<=[,;])\s+")
INSTRUCTS, INSTRUCTION, SPAN_OF_YEARS = map(any_of, ("instructs", "instruction", "span_of_years"))
YEAR_SAID = re.compile(rf"(?<![a-z\d]){YEARS}(?!\d)(?:\s?[-–]?\s?year\b)?", re.IGNORECASE)
PERIOD = "¶"
BETWEEN_PERIODS = re.compile(WORDS["between_periods"].replace("PERIOD", PERIOD), re.IGNORECASE)
TOKEN = re.compile(rf"[{NAME}{OWNER}]|[A-Za-z][A-Za-z0-9&/'’]*(?:[-.][A-Za-z0-9&]+)*|[가-힣]+|\d[\d,.]*%?|[^\w\s]")
AUXILIARY = frozenset(("did", "does", "do", "has", "have", "had", "will", "would", "could", "can"))
PHRASE = re.compile(r"(?:U[Us]*(?:aU+s?)*t?)?L(?:[op]t?U[Us]*|Et?[Us]*)?")
CLOSING = re.compile("(?:에서는?|에는?|은|는|이|가|을|를|으로|로|보다)$")
"""A Korean particle that ends the name of a line or tells a place."""


class Atom(NamedTuple):
    """A word, a mention of a concept or a mark."""

    sign: str
    """Its class: L line, U unknown word, V one with a Korean particle, n name, x mark, f any other; or of CLASSES."""
    text: str
    start: int
    end: int
    mention: Mention | None = None


class Shape(NamedTuple):
    """A question taken apart: its lines, and its skeleton without them."""

    skeleton: str
    lines: tuple[Line, ...]
    """The line of each ¤ of the skeleton, in order."""
    unread: tuple[str, ...]
    """Words that nothing explains."""
    loose: tuple[str, ...] = ()
    """Words that name a part of the company, away from the line: "of the Felt segment"."""


def strip_instructions(question: str) -> str:
    """Return a question without the sentences and clauses that only say how to answer."""
    plain = INSTRUCTION.sub(" ", question)
    sentences = SENTENCE.split(plain)
    # sentences that name a line or a year, or ask
    asking = [
        sentence
        for sentence in sentences
        if YEAR_SAID.search(sentence)
        or PART_SAID.search(sentence)
        or sentence.rstrip().endswith("?")
        or (mentions(sentence) and not _is_instruction(sentence))
    ] or sentences
    plain_sentences: list[str] = []
    for sentence in asking:
        clauses = CLAUSE.split(sentence)
        plain_clauses = [
            clause for clause in clauses if not (_is_instruction(clause) and len(clauses) + len(asking) > 2)
        ]
        plain_sentences.append(" ".join(plain_clauses))
    return " ".join(plain_sentences)


def _is_instruction(clause: str) -> bool:
    """Return whether a clause only says how to answer: "relying on the details of the balance sheet"."""
    return INSTRUCTS.search(clause) is not None and not YEAR_SAID.search(clause)


def parse_shape(question: str, *, spoken_names: Sequence[str], names: Sequence[str]) -> Shape:
    """Parse a question without instructions; spoken_names: what it calls documents; names: their own."""
    text = mark_names(NAME_BRACKETS.sub(" ", question), spoken_names)
    text = SPAN_OF_YEARS.sub(" ", YEAR_SAID.sub(PERIOD, PART_SAID.sub(PERIOD, text)))
    text = " ".join(BETWEEN_PERIODS.sub(" ", text).replace(PERIOD, " ").split())
    all_names = "".join(names).lower()
    atoms = _mark_verbs(list(_parse_atoms(text, all_names)))
    signs = "".join(atom.sign for atom in atoms)
    spans = [match.span() for match in PHRASE.finditer(signs)]
    lines: list[Line] = []
    skeleton, end = "", 0
    for first, last in spans:
        lines.append(_make_line(atoms[first:last], text))
        skeleton += f"{text[end : atoms[first].start]} {LINE} "
        end = atoms[last - 1].end
    skeleton = " ".join((skeleton + text[end:]).split())
    inside = {at for first, last in spans for at in range(first, last)}
    return Shape(skeleton, tuple(lines), *_words_outside_lines(atoms, inside))


def mark_names(text: str, spoken_names: Sequence[str]) -> str:
    """Return the text with OWNER for each name of a document that stands in the genitive ('s), and NAME for others."""
    for name in sorted(spoken_names, key=len, reverse=True):
        words = r"[\s-]+".join(map(re.escape, re.sub(r"['’]s?$", "", name).replace("-", " ").split()))
        pattern = rf"(?<!\w){words}(?P<of>['’]s\b|['’](?=\s))?(?![a-z])"
        text = re.sub(pattern, lambda match: f" {OWNER if match['of'] else NAME} ", text, flags=re.IGNORECASE)
    return text


def _parse_atoms(text: str, all_names: str) -> Iterator[Atom]:
    """Yield the atoms of a question in order: mentions of lines (`L`), other words by their class."""
    mentioned = mentions(text)
    starts = {mention.start: mention for mention in mentioned}
    at = 0
    for token in TOKEN.finditer(text):
        if token.start() < at:
            continue
        mention = next((starts[start] for start in starts if token.start() <= start < token.end()), None)
        if mention and mention.start == token.start():
            yield Atom("L", text[mention.start : mention.end], mention.start, mention.end, mention)
            at = mention.end
            continue
        at = token.end()
        word = token.group()
        atom = Atom(_classify(word, all_names), word, token.start(), at)
        if atom.sign == "U" and not word.isascii():
            end = CLOSING.search(word)
            if end and end.start() > 0:
                atom = Atom("V", word[: end.start()], token.start(), token.start() + end.start())
        yield atom


def _classify(word: str, all_names: str) -> str:
    """Return a class: `n` NAME, OWNER; `a` & and ·, `x` other signs; one of CLASSES; `f` names, digits; `U` unknown."""
    plain = re.sub(r"['’]s?$", "", word.lower())
    if word in (NAME, OWNER):
        return "n"
    if not any(sign.isalnum() for sign in word):
        return "a" if word in "&·" else "x"
    if plain in CLASSES:
        return CLASSES[plain]
    if plain in SPOKEN or (len(plain) > 2 and plain in all_names) or word[0].isdigit():
        return "f"
    if not word.isascii():
        forms = without_particles(plain)
        if word in CLASSES or any(form in CLASSES for form in forms):
            return CLASSES[next(form for form in forms if form in CLASSES)]
        if any(form in SPOKEN or (len(form) > 1 and form in all_names) for form in forms) or KOREAN_VERB.search(word):
            return "f"
    return "U"


def _mark_verbs(atoms: list[Atom]) -> list[Atom]:
    """Mark verbs as read: after "did Marlow Mills" stands a verb, which does not change what is asked for."""
    read = list(atoms)
    for at, atom in enumerate(atoms):
        before = [preceding.text.lower() for preceding in atoms[max(0, at - 3) : at]]
        after_name = at > 0 and atoms[at - 1].text == NAME and any(word in AUXILIARY for word in before)
        if atom.sign == "U" and after_name and atom.text[0].islower():
            read[at] = atom._replace(sign="f")
    return read


def _make_line(atoms: Sequence[Atom], text: str) -> Line:
    """Read a phrase as a line: its concept, and the words that qualify it where it has more of them."""
    phrase = text[atoms[0].start : atoms[-1].end]
    mention = next(atom.mention for atom in atoms if atom.mention)
    of = " ".join(_strip_particles(atom.text) for atom in atoms if atom.sign in "UE")
    return Line(phrase, mention.concept, of=of) if of else Line(text[mention.start : mention.end], mention.concept)


def _strip_particles(word: str) -> str:
    return word if word.isascii() else without_particles(word)[-1]


def _words_outside_lines(atoms: Sequence[Atom], in_lines: set[int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return unknown words outside lines, neighbours as one text: those nothing explains, then parts of the company.

    A capital inside the question, or "segment" behind them, marks a part. in_lines: positions of the atoms of lines.
    """
    unread: list[str] = []
    loose: list[str] = []
    signs = "".join("_" if at in in_lines else atom.sign for at, atom in enumerate(atoms))
    for match in re.finditer(r"(?P<p>pt?)?(?P<words>[UV]+)(?P<s>s)?", signs):
        words = [_strip_particles(atoms[at].text) for at in range(*match.span("words"))]
        capital = atoms[match.start("words")].text[0].isupper() and match.start("words") > 0
        part = match["s"] or (capital and words[0].isascii())
        (loose if part else unread).append(" ".join(words))
    return tuple(unread), tuple(loose)
