"""An answer taken apart for a page, for a chat client and for Markdown: lines, tables, marks, doubtful sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tasks.rag.answers import Answered, Citation, cited_place, headline_of

MARK = re.compile(r"\[(\d{1,3})\]")
WORKED_OUT = "worked out from tables"
"""Reason of answers that hold formulas."""
NOT_SUPPORTED = "not supported"
QUOTE_CHARS = 300


class Part(NamedTuple):
    """A piece of a line: text, or the mark of a citation."""

    text: str
    cited: Citation | None = None
    """Set for the mark of a citation."""
    doubtful: bool = False
    """Whether a number of its sentence stands in no cited block."""


class Block(NamedTuple):
    """A line, a table, or a computed value with its formula."""

    rows: tuple[tuple[tuple[Part, ...], ...], ...]
    """Cells of a table by row, the heading first; a line is one cell."""
    is_table: bool = False
    computed: str = ""
    """Name and value of a computation whose formula is the line: `Inventory turnover FY2023 = 2.64`."""
    inputs: tuple[Citation, ...] = ()
    """Citations of the values that enter the formula, each once."""


def blocks_of(answered: Answered) -> tuple[Block, ...]:
    """Split an answer into its tables and non-blank lines, in order; a line worked out has its formula and inputs."""
    blocks: list[Block] = []
    table: list[str] = []
    for line in [*answered.answer.split("\n"), ""]:
        if line.startswith("|") and line.rstrip().endswith("|"):
            table.append(line)
            continue
        if table:
            rows = [row.strip().strip("|").split("|") for row in table if row.strip("|-: \t")]  # all but its rule
            cells = (tuple(tuple(_split_marks(cell.strip(), answered)) for cell in row) for row in rows)
            blocks.append(Block(tuple(cells), is_table=True))
            table = []
        if line.strip():
            parts = tuple(_split_marks(line, answered))
            head, *formula = line.split(" = ")
            if answered.reason == WORKED_OUT and len(formula) > 1:
                inputs = tuple(dict.fromkeys(part.cited for part in parts if part.cited))
                blocks.append(Block(((parts,),), computed=f"{head} = {formula[-1]}", inputs=inputs))
            else:
                blocks.append(Block(((parts,),)))
    return tuple(blocks)


def _split_marks(text: str, answered: Answered) -> Iterator[Part]:
    """Yield marks that have a citation, and text between; sentences that nothing supports are parts of their own."""
    citations = {citation.n: citation for citation in answered.citations}
    sentences = sorted(filter(None, answered.unsupported), key=len, reverse=True)
    # with a group that matches, every second piece is an unsupported sentence
    pieces = re.split(f"({'|'.join(map(re.escape, sentences))})", text) if sentences else [text]
    for number, piece in enumerate(pieces):
        doubtful, start = number % 2 == 1, 0
        for mark in MARK.finditer(piece):
            if citation := citations.get(int(mark[1])):
                if mark.start() > start:
                    yield Part(piece[start : mark.start()], doubtful=doubtful)
                yield Part(mark[1], citation, doubtful)
                start = mark.end()
        if piece[start:]:
            yield Part(piece[start:], doubtful=doubtful)


def unmarked_sentences(answered: Answered) -> tuple[str, ...]:
    """Return unsupported sentences that do not stand in the answer word for word, and must be named beside it."""
    lines = answered.answer.split("\n")
    return tuple(sentence for sentence in answered.unsupported if not any(sentence in line for line in lines))


def markdown_of(answered: Answered, *, link: Callable[[Citation], str | None]) -> str:
    """Return answer and sources as Markdown, doubts marked, long quotes cut. link: a citation's picture, or None."""

    def write(parts: Sequence[Part]) -> str:
        """Return the parts of a line as Markdown, its marks linked and a warning behind each doubtful sentence."""
        written = ""
        for n, part in enumerate(parts):
            address = part.cited and link(part.cited)
            if address:
                written += f"[\\[{part.text}\\]]({address})"
            else:
                written += f"[{part.text}]" if part.cited else escape_markdown(part.text)
            is_last = n + 1 == len(parts) or not parts[n + 1].doubtful
            written += f" (⚠ {NOT_SUPPORTED})" if part.doubtful and is_last else ""
        return written

    headline = headline_of(answered)
    lines = [f"**{escape_markdown(headline)}**", ""] if headline else []
    for block in blocks_of(answered):
        rows = [[write(cell) for cell in row] for row in block.rows]
        if block.is_table:
            lines += [f"| {' | '.join(row)} |" for row in rows]
            lines.insert(len(lines) - len(rows) + 1, f"|{' --- |' * len(rows[0])}")  # the rule below the heading
        else:
            lines += rows[0]
        lines.append("")
    lines += [f"⚠ {NOT_SUPPORTED}: {escape_markdown(sentence)}\n" for sentence in unmarked_sentences(answered)]
    for citation in answered.citations:
        place, address = escape_markdown(cited_place(citation)), link(citation)
        quote = escape_markdown(" ".join(citation.quote.split())[:QUOTE_CHARS])
        lines.append(f"- \\[{citation.n}\\] {f'[{place}]({address})' if address else place}: “{quote}”")
    return "\n".join(lines).rstrip() + "\n"


def escape_markdown(text: str) -> str:
    """Escape text of a document or a model, so that no Markdown or HTML acts in it."""
    escaped = re.sub(r"([\\`*_\[\]|])", r"\\\1", text)
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
