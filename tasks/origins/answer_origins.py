"""Where an answer of `trivet rag` comes from: claim → place → chunks → document, and the calls of models."""

from __future__ import annotations

from textwrap import shorten

from pydantic import TypeAdapter

from storage.artifacts import Artifacts
from storage.lineage import Lineage
from tasks.origins.origin_tree import OriginTree, build_trees
from tasks.rag.answers import Answered, place_of
from tasks.rag.corpus import Corpus, Embedded, Searchable
from tasks.rag.numbers.cell_facts import CellFact, TextCell

QUOTE_CHARS = 120
UNKNOWN_INDEX = (
    "the index {index} was published from another home, or before origins were recorded: "
    "its pages are known, the steps that made them are not"
)


def trace_answer(answered: Answered, artifacts: Artifacts, lineage: Lineage) -> OriginTree:
    """Return the tree of an answer. Raises StoreUnreachable, DatabaseUnavailable."""
    corpus = corpus_of(answered.index_digest, artifacts, lineage)
    unknown = UNKNOWN_INDEX.format(index=answered.index_digest[:12] or "that was asked")
    notes = () if corpus or not answered.citations else (unknown,)
    sources: list[OriginTree] = []
    for citation in answered.citations:
        page = "" if citation.page is None else f", page {citation.page}"
        is_cell = citation.cell or citation.bbox or citation.place.cells
        behind: tuple[OriginTree, ...] = ()
        if corpus and citation.cell is None:
            behind = trace_document(citation.digest, corpus, lineage)
        elif corpus:  # an input of a figure is one of the document's numbers
            documents = (document for document in corpus.embedded if document.chunked.digest == citation.digest)
            behind = tuple(tree for document in documents for tree in _numbers(document, corpus, lineage))
        place = OriginTree(
            what="chunk" if citation.chunk_id else "cell" if is_cell else "catalogue",
            name=f"{citation.document}{page}",
            key=citation.chunk_id or citation.cell or "",
            sources=behind,
        )
        quote = shorten(citation.quote, QUOTE_CHARS, placeholder=" …")
        sources.append(OriginTree(what=f"claim [{citation.n}]", name=f"“{quote}”", sources=(place,)))
    for call in answered.calls:
        tokens = f"{call.prompt_tokens or 0:,} + {call.completion_tokens or 0:,} tokens"
        sources.append(OriginTree(what="model call", name=f"{call.role} by {call.model}, {tokens}", key=call.key))
    if digest := answered.index_digest:
        sources.append(OriginTree(what="index", key=digest, step=lineage.origins([digest], most=1)[digest].step))
    return OriginTree(what="answer", name=answered.answer, notes=(*answered.notes, *notes), sources=tuple(sources))


def corpus_of(index_digest: str, artifacts: Artifacts, lineage: Lineage) -> Corpus | None:
    """Return what an index was published from; None where nobody recorded it, or `trivet gc` took it."""
    if not index_digest:
        return None
    used = lineage.origins([index_digest], most=1)[index_digest].used
    path = next((path for digest in used if (path := artifacts.find("corpus", digest))), None)
    return Corpus.model_validate_json(path.read_bytes()) if path else None


def trace_document(document: str, corpus: Corpus, lineage: Lineage) -> tuple[OriginTree, ...]:
    """Return the trees of a document's chunks. document: its digest."""
    names = {entry.document: entry.name for entry in corpus.entries}
    embedded = [item for item in corpus.embedded if item.chunked.digest == document]
    return build_trees([item.chunked.chunks.digest for item in embedded], lineage, names=names)


def trace_chunk(chunk_id: str, corpus: Corpus, lineage: Lineage, artifacts: Artifacts) -> OriginTree | None:
    """Return the tree of a chunk; None where the index has none of this id."""
    for document in corpus.embedded:
        for chunk in artifacts.load(Searchable, document.chunked.chunks).chunks:
            if chunk.id == chunk_id:
                name = f"{place_of(_name(document, corpus), chunk.page)}: {shorten(chunk.text, QUOTE_CHARS)}"
                sources = trace_document(chunk.document, corpus, lineage)
                return OriginTree(what="chunk", name=name, key=chunk.id, sources=sources)
    return None


_CELL = TypeAdapter[CellFact | TextCell](CellFact | TextCell)


def trace_cell(cell: str, corpus: Corpus, lineage: Lineage, artifacts: Artifacts) -> OriginTree | None:
    """Return the tree of a cell of a table; None where the index has none there.

    cell: `DOCUMENT:TABLE:ROW:COLUMN`, the document by name or by the first digits of its digest, the rest 0-based.
    """
    document, *place = cell.rsplit(":", 3)  # from the right: the name of a document may hold colons
    for embedded in corpus.embedded:
        if not (embedded.chunked.digest.startswith(document) or _name(embedded, corpus) == document):
            continue
        for line in artifacts.path(embedded.chunked.numbers).read_bytes().splitlines():
            fact = _CELL.validate_json(line)
            if [str(fact.table), str(fact.row), str(fact.col)] == place:
                # Report.pdf, page 3: Net sales, FY2023: 4,822 → 4822000000 USD
                period = f", {fact.period.label}" if fact.period else ""
                amount = ""
                if isinstance(fact, CellFact):
                    amount = f" → {fact.value.normalize():f} {fact.unit}".rstrip()
                label = f"{' › '.join(fact.row_path)}{period}: {fact.shown}{amount}"
                name = f"{place_of(_name(embedded, corpus), fact.page)}: {label}"
                return OriginTree(what="cell", name=name, key=cell, sources=_numbers(embedded, corpus, lineage))
    return None


def _numbers(embedded: Embedded, corpus: Corpus, lineage: Lineage) -> tuple[OriginTree, ...]:
    """Return the trees of a document's numbers."""
    names = {embedded.chunked.digest: _name(embedded, corpus)}
    return build_trees([embedded.chunked.numbers.digest], lineage, names=names)


def _name(embedded: Embedded, corpus: Corpus) -> str:
    return next((entry.name for entry in corpus.entries if entry.document == embedded.chunked.digest), "")
