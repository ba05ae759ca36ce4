"""What is read from documents beside another reader's Markdown of them: words, order, headings, lists, cells.

`python -m tests.benchmarks.bench_reading FOLDER [--json]`. FOLDER holds NAME.docx (or any other format) beside
NAME.docx.md. Texts are compared by their letters and digits, without the marks of list items. F1 of headings, list
items and cells are over all of them in the folder, those of words and order are means over the documents.
"""

from __future__ import annotations

import argparse
import bisect
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from tasks.documents.blocks import Block
from tasks.documents.document_readers import ReadOptions
from tasks.documents.formats import sniff
from tasks.documents.isolation import Job, ReadLimits, read_document

HEADING = re.compile(r"#{1,6}\s+(.*)")
ITEM = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+(.*)")
RULE = re.compile(r"\|[\s|:-]+\|")
EQUATION = re.compile(r"\$\$?[^$]*\$\$?")
MARKUP = re.compile(r"<!--.*?-->|\*\*|~~|\\(?=[^\w\s])|&(?:amp|lt|gt);")
MARK = re.compile(r"\s*(?:[^\w\s(（]|(?:\d{1,3}\.)+(?:\d{1,3})?|[(（]?\w{1,3}[.)）]|o)\s+")
"""The bullet or the number of a list item."""


class Content(NamedTuple):
    """What a document holds; texts by their letters and digits."""

    words: list[str]
    headings: Counter[str]
    items: Counter[str]
    cells: Counter[str]


def of_markdown(text: str) -> Content:
    """The content of a Markdown file; the text of equations differs from program to program and is left out."""
    text = MARKUP.sub("", EQUATION.sub("", text))
    headings, items, cells = list[str](), list[str](), list[str]()
    for paragraph in re.sub(r" {2}\n", " ", text).split("\n"):
        if heading := HEADING.match(paragraph):
            headings.append(heading[1])
        elif paragraph.startswith("|"):
            cells += [] if RULE.fullmatch(paragraph) else paragraph.strip().strip("|").split("|")
        elif item := ITEM.match(paragraph):
            items.append(item[1])
    return Content(_words(text), _counted(headings), _counted(map(_unmarked, items)), _counted(cells))


def of_blocks(blocks: Sequence[Block]) -> Content:
    """The content of blocks; a merged cell counts in each place that it covers, as Markdown writes it."""
    blocks = [block for block in blocks if block.kind not in ("header", "footer")]
    text = "\n".join(EQUATION.sub("", block.text) for block in blocks if block.kind != "figure")
    cells = [cell.text for block in blocks for cell in block.cells for _ in range(cell.row_span * cell.col_span)]
    headings, items = ([block.text for block in blocks if block.kind == kind] for kind in ("heading", "list"))
    return Content(_words(text), _counted(headings), _counted(map(_unmarked, items)), _counted(cells))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _unmarked(text: str) -> str:
    return MARK.sub("", text, count=1) if MARK.match(text) else text


def _counted(texts: Iterator[str] | Sequence[str]) -> Counter[str]:
    folded = (re.sub(r"[\W_]", "", text.casefold()) for text in texts)
    return Counter(text for text in folded if text)


def order(wanted: Sequence[str], given: Sequence[str]) -> float:
    """Share of the words that stand once in both that are in the same order: their longest increasing run."""
    once = [{word for word, count in Counter(words).items() if count == 1} for words in (wanted, given)]
    places = {word: place for place, word in enumerate(given) if word in once[0] & once[1]}
    ends = list[int]()
    for place in (places[word] for word in wanted if word in places):
        at = bisect.bisect_left(ends, place)
        ends[at : at + 1] = [place]
    return len(ends) / len(places) if places else 1.0


def f1(wanted: Counter[str], given: Counter[str]) -> float:
    """2 × shared / all; 1 where neither side has any."""
    total = wanted.total() + given.total()
    return 2 * (wanted & given).total() / total if total else 1.0


def measure(folder: Path) -> dict[str, float]:
    """The figures of a folder."""
    words, orders = list[float](), list[float]()
    sides = [[Counter[str]() for _ in range(3)] for _ in range(2)]
    for truth in sorted(folder.glob("*.md")):
        wanted, given = of_markdown(truth.read_text("utf-8")), of_blocks(blocks_of(truth.with_suffix("")))
        words.append(f1(Counter(wanted.words), Counter(given.words)))
        orders.append(order(wanted.words, given.words))
        for side, content in zip(sides, (wanted, given), strict=True):
            for count, more in zip(side, content[1:], strict=True):
                count.update(more)
    kinds = (f1(wanted, given) for wanted, given in zip(*sides, strict=True))
    figures = dict(zip(("headings", "list_items", "cells"), kinds, strict=True))
    return {"documents": len(words), "words": fmean(words), "order": fmean(orders)} | figures


def blocks_of(file: Path) -> list[Block]:
    """The blocks of a document in their order."""
    job = Job(path=file, digest="", format=sniff(file).format)
    document = read_document(job, options=ReadOptions(ocr="off"), limits=ReadLimits()).document
    return [block for page in document.pages for block in page.blocks]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="NAME.docx beside NAME.docx.md")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    chosen = parser.parse_args()
    figures = {name: round(value, 4) for name, value in measure(chosen.folder).items()}
    print(json.dumps(figures) if chosen.json else "\n".join(f"{name:<11}{value:g}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
