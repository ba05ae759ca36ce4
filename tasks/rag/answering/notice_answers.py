"""Answers from the facts that notices state: those of one document, or a table of several."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from storage.segments import CatalogueEntry, Fact
from tasks.language.sentences import Language, language_of
from tasks.rag.answers import Citation, Draft, RetrievalPlan
from tasks.rag.indexing.notice_facts import DISPLAY, WORDS, FactName, read_value, strip_label
from tasks.rag.planning.names import stem_of

MOST_DOCUMENTS = 6
"""Most documents of a table, each a column."""
STATED = "the catalogue holds such facts of the documents that are meant"
FACT_CONFIDENCE = 0.9
"""Confidence of an answer from facts, whose label and value were read by rules."""
LEAST_SHARE = 0.5
"""Share of a question's words that must name the document; with fewer it asks about a part of the project."""

_ASKING = WORDS["asked"]
_SUBJECT = _ASKING["subject"]
_PATTERNS: tuple[tuple[FactName, re.Pattern[str]], ...] = (
    *((name, re.compile(rf"(?:{words}){_SUBJECT}", re.VERBOSE)) for name, words in _ASKING["korean"].items()),
    ("deadline", re.compile(_ASKING["when"], re.VERBOSE)),
    *(
        (name, re.compile(rf"\b(?:{words})\b", re.VERBOSE | re.IGNORECASE))
        for name, words in _ASKING["english"].items()
    ),
)
_ORGANISATION = re.compile(_ASKING["organisation"], re.VERBOSE)
"""Organisations and notice rounds: a document is only meant if it holds those that the question names."""
_WORD = re.compile(r"[가-힣]+|[A-Za-z]{2,}|[0-9]+차|[0-9][0-9-]+")
_PARTICLES = re.compile(_ASKING["particles"], re.VERBOSE)
_PLAIN = frozenset(WORDS["plain"]["words"].split())
"""Words that name no document."""
_FIELDS: dict[FactName, str] = WORDS["metadata"]
"""Column of the metadata table that may state a fact too, by the fact."""
_COMPARABLE: tuple[FactName, ...] = ("amount", "published", "opening", "deadline")
"""Facts that two sources state in comparable form."""
_BUDGET = re.compile(r"예산|사업금액|사업비|budget")
"""Words of the amount that a question about the budget means where a document states several amounts."""
_TABLE_WORDS: dict[Language, dict[str, str]] = WORDS["table"]


def answer_from_facts(question: str, plan: RetrievalPlan, catalogue: Sequence[CatalogueEntry]) -> Draft | None:
    """Return the facts that are asked for, of the document that is meant or a table of those that are compared.

    None if the question asks for no fact, means no document for sure, or none of those states the fact.
    """
    # of 557 unseen questions facts answered two, but comparisons and follow-ups on notices need them
    names = find_requested_facts(question)
    if not names or plan.filters.mode == "all":
        return None
    # for each side the first document that states such a fact, else all that do
    by_digest = {entry.document: entry for entry in catalogue}
    stating = {entry.document for entry in catalogue if any(fact.name in names for fact in entry.facts)}
    if plan.needs_multi_doc and len(plan.filters.groups) > 1:
        sides = [side for side in plan.filters.groups if side]
        digests = [next((digest for digest in side if digest in stating), side[0]) for side in sides]
    else:
        digests = [digest for digest in plan.filters.documents if digest in stating] or list(plan.filters.documents)
    entries = [by_digest[digest] for digest in dict.fromkeys(digests) if digest in by_digest]
    if plan.needs_multi_doc:
        table = compare_facts(names, entries, question) if 2 <= len(entries) <= MOST_DOCUMENTS else None
        return table if table and table.citations else None
    is_certain = plan.filters.mode == "only" or plan.query_type == "followup"
    # a HWP and its HWPX have one stem: they count as one document
    stems = {stem_of(entry.name) for entry in catalogue if entry.document in plan.filters.documents}
    if not (is_certain and entries and len(stems) == 1 and _is_about_document(question, entries[0])):
        return None
    facts = [fact for name in names if (fact := _pick_fact(entries[0], name, question))]
    # a line per fact, as the document labels and writes it
    lines = [f"{fact.label}: {fact.value} [{n}]" for n, fact in enumerate(facts, start=1)]
    citations = tuple(_citation(n, entries[0], fact) for n, fact in enumerate(facts, start=1))
    return Draft("\n".join(lines), citations, reason=STATED, confidence=FACT_CONFIDENCE) if facts else None


def find_requested_facts(question: str) -> tuple[FactName, ...]:
    """Return the names of the facts that a question asks for, in the order of mention; empty if it asks for none."""
    positions: dict[FactName, int] = {}
    for name, pattern in _PATTERNS:
        if match := pattern.search(question):
            positions[name] = min(match.start(), positions.get(name, len(question)))
    return tuple(sorted(positions, key=lambda name: positions[name]))


def _is_about_document(question: str, entry: CatalogueEntry) -> bool:
    """Return whether the words of the question beside the fact mostly name the document, and not a part of it."""
    texts = [entry.name, entry.title or "", *entry.aliases]
    texts += [value for field, value in entry.metadata.items() if not field.endswith("_page")]
    texts += [f"{fact.label} {fact.value}" for fact in entry.facts]
    names = re.sub(r"[\W_]", "", " ".join(texts)).casefold()
    rest = question
    for _, pattern in _PATTERNS:
        rest = pattern.sub(" ", rest)
    words = [word.casefold() for word in _WORD.findall(rest)]
    # the words without their particles, and without those that name no document
    words = [_PARTICLES.sub("", word) or word for word in words if word not in _PLAIN]
    words = [word for word in words if word not in _PLAIN]
    naming = [word for word in words if word in names or (len(word) > 2 and word[:-1] in names)]
    if any(_ORGANISATION.fullmatch(word) and word not in naming for word in words):
        return False
    return len(naming) >= LEAST_SHARE * len(words)


def _citation(n: int, entry: CatalogueEntry, fact: Fact) -> Citation:
    """Return citation number `n`, of a fact."""
    quote = f"{fact.label}: {fact.value}"
    return Citation(n=n, document=entry.name, digest=entry.document, page=fact.page, bbox=fact.bbox, quote=quote)


def _pick_fact(entry: CatalogueEntry, name: FactName, question: str) -> Fact | None:
    """Return the fact of this name whose label the question contains, else a budget, else the first, or None."""
    facts, wording = [fact for fact in entry.facts if fact.name == name], strip_label(question)
    labelled = [fact for fact in facts if strip_label(fact.label) in wording]
    budgets = [fact for fact in facts if _BUDGET.search(strip_label(fact.label))]
    return next(iter(labelled or budgets or facts), None)


def compare_facts(names: Sequence[FactName], entries: Sequence[CatalogueEntry], question: str) -> Draft:
    """Return a table in Markdown, aligned for a terminal: a row for each fact, a column for each document.

    Each value of a document carries the mark of its citation. A value that only the metadata table states is marked so,
    and below the table stands where that table contradicts a document.
    """
    language = language_of(question)
    labels, citations = _TABLE_WORDS[language], list[Citation]()
    lines = [[labels["fact"], *(stem_of(entry.name) for entry in entries)]]
    remarks: dict[str, list[str]] = {"equal": [], "differ": []}
    contradictions: list[str] = []
    for name in sorted(names, key=list(DISPLAY).index):
        label, line = DISPLAY[name][language], list[str]()
        values: list[str | None] = []
        for entry in entries:
            fact, metadata = _pick_fact(entry, name, question), entry.metadata.get(_FIELDS.get(name, ""))
            if fact:
                citations.append(_citation(len(citations) + 1, entry, fact))
                line.append(f"{' '.join(fact.value.split())} [{len(citations)}]")
                values.append(fact.canonical)
                if metadata and _contradicts(name, fact, metadata):
                    words = {"document": stem_of(entry.name), "fact": label, "metadata": metadata}
                    contradictions.append(labels["contradiction"].format(**words, stated=fact.value))
            elif metadata:
                line.append(f"{' '.join(metadata.split())} ({labels['metadata']})")
                values.append(_read_canonical(name, metadata))
            else:
                line.append(labels["missing"])
        lines.append([label, *line])
        if len(values) > 1 and None not in values:
            remarks["equal" if len(set(values)) == 1 else "differ"].append(label)
    below = [f"{labels[kind]}: {', '.join(rows)}" for kind, rows in remarks.items() if rows] + contradictions
    text = "\n".join([*_draw_table(lines), *(["", *below] if below else [])])
    return Draft(text, tuple(citations), reason=STATED, confidence=FACT_CONFIDENCE)


def _read_canonical(name: FactName, text: str) -> str | None:
    """Return a value of the metadata table in comparable form; None where it cannot be read."""
    return next((value.canonical for value in read_value(name, "", text)), None)


def _contradicts(name: FactName, fact: Fact, metadata: str) -> bool:
    """Return whether the metadata table states another amount or date; names, which both sources shorten, never do."""
    stated, listed = fact.canonical, _read_canonical(name, metadata)
    if name not in _COMPARABLE or not stated or listed is None:
        return False
    return not (listed.startswith(stated) or stated.startswith(listed))  # a day without its hour is no contradiction


def _draw_table(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table, padded to equal width; a Hangul syllable is two columns wide."""

    def width(text: str) -> int:
        return sum(2 if unicodedata.east_asian_width(s) in "WF" else not unicodedata.combining(s) for s in text)

    rows = [[text.replace("|", "\\|") for text in line] for line in lines]  # a bar would open a column
    widths = [max(3, *(width(row[column]) for row in rows)) for column in range(len(rows[0]))]
    table = [
        "| " + " | ".join(text + " " * (wide - width(text)) for text, wide in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    table.insert(1, "| " + " | ".join("-" * wide for wide in widths) + " |")
    return table
