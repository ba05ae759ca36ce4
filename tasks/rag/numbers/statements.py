"""Which statement a table is, by the lines that it holds: a balance sheet has total assets, whatever its title says."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from tasks.rag.numbers.cell_facts import CellFact
from tasks.rag.numbers.concepts import NEARLY, Statement, concepts, fits, label_of

FEWEST_LINES = 4
"""Lines of one statement that make a table that statement."""


def with_statements(facts: Sequence[CellFact]) -> list[CellFact]:
    """The facts, in their order, with the statement that their table is; of a part of one nothing is said."""
    tables: dict[int, set[tuple[str, ...]]] = defaultdict(set)
    for fact in facts:
        tables[fact.table].add(fact.row_path)
    kinds = {table: _statement(paths) for table, paths in tables.items()}
    return [fact.model_copy(update={"statement": kind}) if (kind := kinds[fact.table]) else fact for fact in facts]


def _statement(paths: Iterable[tuple[str, ...]]) -> Statement | None:
    counts: Counter[Statement] = Counter()
    for path in paths:
        named = {key for key, score in fits(label_of(path)).items() if score >= NEARLY}
        counts.update({kind for key in named if (kind := concepts()[key].statement)})
    ((kind, count),) = counts.most_common(1) or (("other", 0),)
    return kind if count >= FEWEST_LINES else None  # type: ignore[return-value]
