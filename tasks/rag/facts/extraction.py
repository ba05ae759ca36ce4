"""What a request for proposals states plainly: amount, period, deadlines, points, requirements; read without a model.

Only what stands under its label is a fact: in the cell beside it or below it, after its colon, or as its sentence.
A document that asks for no proposals has none.
"""

from __future__ import annotations

from collections.abc import Iterator

from storage.index import Fact
from tasks.rag.documents.blocks import Block, Document
from tasks.rag.facts.lines import read_lines
from tasks.rag.facts.tables import read_table_facts
from tasks.rag.facts.values import Stated
from tasks.rag.facts.words import EVALUATION, SOLICITATION, bare

MOST_FACTS = 300
OPENING_BLOCKS = 60
"""Where a document says that it asks for proposals …"""
TELLING = frozenset(["amount", "period", "deadline"])
"""… unless it states two of these."""


def extract_facts(document: Document) -> tuple[Fact, ...]:
    """The facts of a request for proposals in reading order, each once; none of another document."""
    blocks = [block for page in document.pages for block in page.blocks]
    kept: dict[tuple[str, str], Fact] = {}
    for block, in_evaluation in _with_section(blocks):
        for stated in _stated(block, in_evaluation=in_evaluation):
            if len(kept) < MOST_FACTS and not _is_known(stated, kept):
                kept[_key(stated)] = Fact(**stated._asdict(), page=block.page, bbox=block.bbox)
    names = {fact.name for fact in kept.values()}
    is_request = len(names & TELLING) >= 2 or _asks_for_proposals(document, blocks)
    return tuple(kept.values()) if is_request else ()


def _asks_for_proposals(document: Document, blocks: list[Block]) -> bool:
    opening = " ".join(block.text for block in blocks[:OPENING_BLOCKS])
    return SOLICITATION.search(f"{document.title or ''} {opening}") is not None


def _with_section(blocks: list[Block]) -> Iterator[tuple[Block, bool]]:
    """Each block of the text, and whether the heading or caption above it speaks of evaluation."""
    in_evaluation = False
    for block in blocks:
        if block.kind in ("header", "footer"):
            continue
        if block.kind in ("heading", "caption"):
            in_evaluation = EVALUATION.search(block.text) is not None
        yield block, in_evaluation


def _stated(block: Block, *, in_evaluation: bool) -> Iterator[Stated]:
    if block.kind == "table":
        yield from read_table_facts(block.cells, in_evaluation=in_evaluation)
    else:
        yield from read_lines(block.text, in_evaluation=in_evaluation)


def _key(stated: Stated) -> tuple[str, str]:
    """Criteria with equal points are not one fact; two ways to write an amount are."""
    if stated.name == "points":
        return stated.name, f"{bare(stated.label)}={stated.canonical}"
    return stated.name, stated.canonical or " ".join(stated.value.split())


def _is_known(stated: Stated, kept: dict[tuple[str, str], Fact]) -> bool:
    """Does the fact stand already, or the same day with its hour?"""
    known = (fact.canonical or "" for fact in kept.values() if fact.name == stated.name)
    return _key(stated) in kept or (
        bool(stated.canonical) and any(one.startswith(f"{stated.canonical} ") for one in known)
    )
