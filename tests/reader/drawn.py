"""Draws questions from the tables of our own documents: their answer is the cell, or the two, that they were made of.

They teach what the published sets cannot: which row of thousands is meant, by names that people have for a line.
"""

from __future__ import annotations

import tomllib
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from storage.index import Index
from storage.numbers import select_numbers
from tasks.language.tokens import HANGUL
from tasks.rag.numbers.concepts import concepts, label_of, score_concepts
from tasks.rag.planning.names import stem_of
from tests.reader.questions import Item

PHRASINGS = Path(__file__).with_name("phrasings.toml")
OPERATIONS = {"value": 0.5, "difference": 0.15, "growth": 0.15, "share": 0.12, "ratio": 0.04, "sum": 0.04}
"""How often each operation is asked for."""
MOST_LABEL, TRIES = 60, 5
SURE = 0.9
"""Least score of a label that another name of its line may take the place of."""
ANOTHER_NAME, DROPPED_WORD, IN_KOREAN, NAMED = 0.5, 0.3, 0.15, 0.85


def draw_questions(index: Index, *, per_document: int) -> list[Item]:
    """Return questions over the documents of an index; gold: operation, and place (table, row, column) of each cell."""
    names = {entry.document: entry.name for entry in index.catalogue}
    phrasings = tomllib.loads(PHRASINGS.read_text("utf-8"))
    by_document: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for record in select_numbers(index.numbers, names).records():
        by_document[record["document"]].append(record)
    return [
        item
        for document, records in sorted(by_document.items())
        for item in _draw_of_document(names[document], records, phrasings, per_document)
    ]


def _draw_of_document(
    name: str, records: Sequence[Mapping[str, Any]], phrasings: Mapping[str, Sequence[str]], count: int
) -> Iterator[Item]:
    random = Random(zlib.crc32(name.encode()))
    rows: dict[tuple[int, int], list[Mapping[str, Any]]] = defaultdict(list)
    columns: dict[tuple[int, int], list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        rows[record["table"], record["row"]].append(record)
        columns[record["table"], record["col"]].append(record)
    usable = [record for record in records if _is_usable(record)]
    drawn = 0
    for _ in range(TRIES * count if usable else 0):
        if drawn >= min(count, len(usable) // 4):
            return
        first = random.choice(usable)
        operation = random.choices(list(OPERATIONS), list(OPERATIONS.values()))[0]
        year, before, second = _year_of(first), None, None
        line = [each for each in rows[first["table"], first["row"]] if _year_of(each) == (year or 0) - 1]
        beside = [each for each in columns[first["table"], first["col"]] if _is_usable(each) and each is not first]
        by_years = operation == "growth" or (operation == "difference" and random.random() < 0.6)
        if operation != "value":
            choices = line if by_years else beside
            if not choices or (by_years and not year):
                continue
            second = random.choice(choices)
            before = _year_of(second)
            if not second["value"] or not first["value"] or second["unit"] != first["unit"]:
                continue
        korean = bool(HANGUL.search(first["row_path"][-1]))
        row, in_korean = _name_row(first, random, korean=korean)
        other = _name_row(second, random, korean=in_korean)[0] if second and not by_years else None
        fitting = [
            phrasing
            for phrasing in phrasings[operation]
            if bool(HANGUL.search(phrasing)) == in_korean
            and "{row}" in phrasing
            and "{head}" not in phrasing
            and "{third}" not in phrasing
            and ("{other}" in phrasing) == (other is not None)
            and ("{year}" not in phrasing or year)
            and ("{before}" not in phrasing or before)
            and (by_years or "{before}" not in phrasing)
        ]
        if not fitting:
            continue
        text = random.choice(fitting).format(row=row, other=other, year=year, before=before)
        if random.random() < NAMED:
            text = _name_document(text, name, random, korean=in_korean)
        drawn += 1
        cells = [(each["table"], each["row"], each["col"]) for each in (first, second) if each]
        yield Item("drawn", name, text, {"operation": operation, "cells": cells})


def _is_usable(record: Mapping[str, Any]) -> bool:
    label = (record["row_path"] or ("",))[-1]
    return record["value"] is not None and 2 < len(label) < MOST_LABEL and any(char.isalpha() for char in label)


def _year_of(record: Mapping[str, Any]) -> int | None:
    return record["period"]["year"] if record["period"] else None


def _name_row(record: Mapping[str, Any], random: Random, *, korean: bool) -> tuple[str, bool]:
    """Return how a person may name a row, and whether that is Korean."""
    label = label_of(record["row_path"])
    keys = [key for key, score in score_concepts(label).items() if score >= SURE]
    in_korean = korean or random.random() < IN_KOREAN
    if keys and (in_korean != korean or random.random() < ANOTHER_NAME):
        others = [name for name in concepts()[keys[0]].names[:8] if bool(HANGUL.search(name)) == in_korean]
        if others:
            return random.choice(others), in_korean
    words = label.split()
    if len(words) > 2 and random.random() < DROPPED_WORD:
        words.pop(random.randrange(len(words)))
    return " ".join(words), korean


def _name_document(text: str, name: str, random: Random, *, korean: bool) -> str:
    """Return a question that names its document by the first part of its file's name."""
    company = stem_of(name).replace("_", " ").split()[0]
    if korean:
        return f"{company} {text}"
    short = text[0].lower() + text[1:]
    ways = (f"{company}: {text}", f"{company} {short}", f"{text.rstrip('?.')} at {company}?", f"For {company}, {short}")
    return random.choice(ways)
