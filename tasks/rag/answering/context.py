"""What a model is shown of the documents: the best chunks that fit a number of tokens, each with where it stands."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tasks.language.sentences import split_sentences
from tasks.rag.retrieval.search import Hit

LABEL_TOKENS = 12
"""Fences and line breaks around a block."""
FEWEST_TOKENS = 40
"""A block that would be cut to less than this is left out."""
MOST_LABEL_CHARS = 240
_TOKENS_PER_CHAR = (
    (re.compile(r"[가-힣ㄱ-ㆎᄀ-ᇿ]"), 0.8),
    (re.compile(r"[぀-ヿ㐀-鿿]"), 1.0),
    (re.compile(r"[A-Za-z]"), 0.25),
    (re.compile(r"[ \t]"), 0.1),
    (re.compile(r"\d"), 0.6),
)
_OTHER_TOKENS = 0.7


class Block(NamedTuple):
    """A chunk as the model sees it."""

    n: int
    """Its number: the answer cites [n]."""
    label: str
    """Document, page, headings."""
    text: str
    hit: Hit


class Context(NamedTuple):
    """What the model is shown, and what had no room."""

    blocks: tuple[Block, ...]
    dropped: tuple[Hit, ...]
    tokens: int
    """Estimated, of all blocks."""

    @property
    def hits(self) -> tuple[Hit, ...]:
        """The hits of the blocks: number n is at n - 1."""
        return tuple(block.hit for block in self.blocks)


def pack_context(hits: Sequence[Hit], *, most_tokens: int, per_document: bool) -> Context:
    """The blocks that fit, best first; the first one is cut if it must be, later ones are taken whole or not at all.

    per_document: the best chunk of every document comes before the second of any.
    """
    blocks: list[Block] = []
    dropped: list[Hit] = []
    left = most_tokens
    for hit in _by_turns(hits) if per_document else hits:
        label = label_of(hit)
        room = left - estimated_tokens(label) - LABEL_TOKENS
        text = hit.chunk.text
        if len(text) * 0.1 > room or estimated_tokens(text) > room:  # no sign costs less than a tenth of a token
            text = "" if blocks else _cut(hit, room)
        if not text:
            dropped.append(hit)
            continue
        blocks.append(Block(len(blocks) + 1, label, text, hit))
        left = room - estimated_tokens(text)
    told, left = _with_rows(blocks, left)
    return Context(tuple(told), tuple(dropped), most_tokens - left)


def estimated_tokens(text: str) -> int:
    """About how many tokens a model counts, rather too many than too few.

    A syllable of Hangul counts .8, an ideograph 1, a letter 1/4, a digit .6, other signs .7: the dearer of what
    o200k (GPT-4o, GPT-5) and the tokenizer of Qwen make of reports with tables.
    """
    total, counted = 0.0, 0
    for pattern, tokens in _TOKENS_PER_CHAR:
        found = len(pattern.findall(text))
        total += found * tokens
        counted += found
    return math.ceil(total + (len(text) - counted) * _OTHER_TOKENS)


def label_of(hit: Hit) -> str:
    """`reports/annual.pdf, page 12, Item 7 › Results`, on one line."""
    chunk = hit.chunk
    page = f"page {chunk.page}" if chunk.page is not None else ""
    parts = (hit.document_name, page, " › ".join(chunk.heading_path))
    return " ".join(", ".join(part for part in parts if part).split())[:MOST_LABEL_CHARS]


def _by_turns(hits: Sequence[Hit]) -> list[Hit]:
    """The best hit of every document, then the second best of every, …"""
    turns: dict[str, int] = {}
    placed: list[tuple[int, int, Hit]] = []
    for rank, hit in enumerate(hits):
        turn = turns[hit.chunk.document] = turns.get(hit.chunk.document, -1) + 1
        placed.append((turn, rank, hit))
    return [hit for _, _, hit in sorted(placed, key=lambda item: item[:2])]


def _cut(hit: Hit, room: int) -> str:
    """The sentences or table rows from the beginning that fit; header and unit of a table stand there."""
    if room < FEWEST_TOKENS:
        return ""
    text = hit.chunk.text[: 10 * room]
    end = 0
    used = 0
    for start, stop in split_sentences(text):
        used += estimated_tokens(text[end:start]) + estimated_tokens(text[start:stop])
        if used > room:
            break
        end = stop
    return text[:end] or next(_shorter(text, room))


def _shorter(text: str, room: int) -> Iterator[str]:
    """The text halved until it fits: one sentence that is longer than all the room."""
    while estimated_tokens(text) > room:
        text = text[: len(text) // 2]
    yield text


def _with_rows(blocks: Sequence[Block], left: int) -> tuple[list[Block], int]:
    """Rows of wide tables as sentences below them, where there is room: a model then reads no column wrong."""
    told: list[Block] = []
    for block in blocks:
        chunk = block.hit.chunk
        named = sum(row.count(": ") >= 2 for row in chunk.sentences)  # at least three columns, under a header
        wide = block.text == chunk.text and 2 * named > len(chunk.sentences)
        rows = "\n".join(chunk.sentences) if wide else ""
        cost = estimated_tokens(rows) + 1 if rows else 0
        if rows and cost <= left:
            block, left = block._replace(text=f"{block.text}\n\n{rows}"), left - cost
        told.append(block)
    return told, left
