"""Retrieval strategies: built-in ones (`_BUILT_IN`), and those of installed packages.

A package adds one by an entry point of the group `trivet.retrievers` that leads to a `RetrievalStrategy`; the entry
point's name is the strategy's. Every command line imports this module, so its own imports are light.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, Field

from tasks.rag.rag_errors import NoLexicalIndex, StrategyUnusable

if TYPE_CHECKING:
    from tasks.rag.retrieval.retrievers import Ranked, Retrievers, Scope

ENTRY_POINTS = "trivet.retrievers"


class Fused(NamedTuple):
    """A row, its score, and its 1-based rank in each ranking that contains it."""

    row: int
    score: float
    ranks: dict[str, int]


class Ranking(NamedTuple):
    """The rows that a strategy ranked for one question, with notes."""

    found: list[Fused]
    """Rows of the index with their scores, the best first."""
    notes: tuple[str, ...] = ()
    """Deviations from the ranking that was asked for, with their reasons."""


class RetrievalStrategy(NamedTuple):
    """One way to rank the chunks of an index for a question."""

    rank: Callable[[Retrievers, int, Scope], Ranking]
    """Ranks at least so many chunks within the scope, by what the retrievers of the question give."""
    needs: frozenset[Literal["meaning", "words"]] = frozenset()
    """`meaning`: an embedder that reads the script of the question; `words`: an index with BM25. Where a need is not
    met, a plan runs `tasks.rag.STRATEGY` and notes it."""


def strategy_names() -> tuple[str, ...]:
    """Return the names of all strategies, the built-in ones first, without importing any package."""
    installed = sorted(point.name for point in entry_points(group=ENTRY_POINTS))
    return tuple(dict.fromkeys((*_BUILT_IN, *installed)))


def find_strategy(name: str) -> RetrievalStrategy:
    """Return the strategy of that name, built in or of an installed package. Raises StrategyUnusable."""
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    for point in entry_points(group=ENTRY_POINTS, name=name):
        source = f"entry point {point.name} = {point.value}"
        try:
            target = point.load()
        except Exception as error:  # it runs code of another package, which raises what it likes
            raise StrategyUnusable(f"{source}: cannot be imported ({error!r})") from error
        if not isinstance(target, RetrievalStrategy):
            raise StrategyUnusable(
                f"{source}: expected a tasks.rag.retrieval.strategies.RetrievalStrategy, found {type(target).__name__}"
            )
        return target
    names = strategy_names()
    near = get_close_matches(name.casefold(), names, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise StrategyUnusable(f"there is no retrieval strategy {name!r}.{hint} There are: {', '.join(names)}")


def _require_strategy(name: str) -> str:
    find_strategy(name)
    return name


def _with_choices(schema: dict[str, Any]) -> None:
    schema["enum"] = list(strategy_names())


StrategyName = Annotated[str, AfterValidator(_require_strategy), Field(json_schema_extra=_with_choices)]
"""The name of a strategy as a field of a configuration: checked, and a list of choices in the Prefect UI."""


def alone(name: str, ranked: Ranked) -> Ranking:
    """Return the ranking of a single retriever as the result of a strategy."""
    pairs = zip(ranked.rows, ranked.scores, strict=True)
    return Ranking([Fused(row, score, {name: rank}) for rank, (row, score) in enumerate(pairs, start=1)])


def reciprocal_rank_fusion(
    rankings: Mapping[str, Sequence[int]], *, weights: Mapping[str, float], rank_constant: int = 60
) -> list[Fused]:
    """Return rankings as one: a row's score is the sum of `weight / (rank_constant + rank)` over those that hold it.

    rankings: name → rows, best first. weights: by the same names; 1 where absent. Ties: the lower row first.
    Source: Cormack, Clarke, Büttcher 2009, "Reciprocal rank fusion outperforms Condorcet", k = 60.
    """
    ranks: dict[int, dict[str, int]] = {}
    for name, rows in rankings.items():
        for rank, row in enumerate(rows, start=1):
            ranks.setdefault(row, {})[name] = rank
    fused = [
        Fused(row, sum(weights.get(name, 1.0) / (rank_constant + rank) for name, rank in row_ranks.items()), row_ranks)
        for row, row_ranks in ranks.items()
    ]
    return sorted(fused, key=lambda hit: (-hit.score, hit.row))


def _rrf(retrievers: Retrievers, count: int, scope: Scope) -> Ranking:
    """Return the fused ranking, at least `count` rows, of all retrievers that read the question; a note on others."""
    from tasks.language.tokens import WrongTokenizer

    settings = retrievers.settings
    rankings, notes = dict[str, list[int]](), list[str]()
    try:
        if settings.bm25_weight:
            rankings["bm25"] = retrievers.bm25(max(settings.bm25_top_k, count), scope).rows
        if settings.bm25_weight and settings.words_weight:
            rankings["words"] = retrievers.words(max(settings.words_pool, count), scope).rows
    except (NoLexicalIndex, WrongTokenizer) as error:
        notes.append(f"fused similarity and mmr only: {error}")
    if rankings and not retrievers.reads_question:
        # measured on the sample questions: with its votes Korean page hit@5 falls from .91 to .24
        embedder = retrievers.embedder_name.partition("@")[0]
        notes.append(f"words alone decide: {embedder} does not read the script of this question")
    else:
        depth = max(settings.mmr_pool, count)
        dense = {"similarity": retrievers.similarity(depth, scope).rows, "mmr": retrievers.mmr(depth, scope).rows}
        rankings = dense | rankings
    weights = {
        "similarity": settings.similarity_weight,
        "mmr": settings.mmr_weight,
        "bm25": settings.bm25_weight,
        "words": settings.bm25_weight * settings.words_weight,
    }
    return Ranking(reciprocal_rank_fusion(rankings, weights=weights, rank_constant=settings.rrf_k), tuple(notes))


_BUILT_IN = {
    "similarity": RetrievalStrategy(  # the cosine of question and chunk
        rank=lambda retrievers, count, scope: alone("similarity", retrievers.similarity(count, scope)),
        needs=frozenset(["meaning"]),
    ),
    "mmr": RetrievalStrategy(  # by cosine, without repetition
        rank=lambda retrievers, count, scope: alone("mmr", retrievers.mmr(count, scope)), needs=frozenset(["meaning"])
    ),
    "bm25": RetrievalStrategy(  # by the words of the question
        rank=lambda retrievers, count, scope: alone("bm25", retrievers.bm25(count, scope)), needs=frozenset(["words"])
    ),
    "rrf": RetrievalStrategy(rank=_rrf),  # all of these, and words that are added to the question
}
