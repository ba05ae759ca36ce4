"""Published judgments of models' answers: AlpacaEval's annotations, and MT-Bench's ratings and pairs.

AlpacaEval      {instruction, output_1, generator_1, output_2, generator_2, annotator, preference}: annotations.json of
                tatsu-lab/alpaca_eval, a list. The model is generator_2; preference is 1 (output_1) to 2 (output_2), 0
                or 1.5 a tie (src/alpaca_eval/metrics/helpers.py); `glm_preference` is the length-controlled one, 0 to
                1, where it was kept (glm_winrate.py)
MT-Bench        {question_id, model, judge, score, turn}: model_judgment/JUDGE_single.jsonl of lm-sys/FastChat
                (fastchat/llm_judge/gen_judgment.py); a score of -1 is a judge that failed (show_result.py)
MT-Bench pairs  {question_id, model_1, model_2, judge, g1_winner, g2_winner, turn}: JUDGE_pair.jsonl, there; or
                {question_id, model_a, model_b, judge, winner, turn}: the votes that compute_agreement.py reads
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from tasks.evaluation.benchmarks import fields
from tasks.evaluation.running.benchmark_data import Row

TURNS = {1: "Turn 1", 2: "Turn 2"}
FAILED = -1
LOWEST, HIGHEST = 1, 10
TIE = 0.5
LENGTH_CONTROLLED = "length_controlled_winrate"


class Judgment(NamedTuple):
    """What a judge says of a model's answer."""

    model: str
    judge: str
    item: str
    score: float | None
    """None: the judge gave no verdict."""
    reason: str
    at: float = 0.0
    """Unix time; 0 if unknown."""
    against: str = ""
    """The other model of a pair."""
    turn: int = 0
    group: str | None = None
    values: dict[str, float] | None = None


def preference(row: Row) -> Iterator[Judgment]:
    """The judgment of a record of AlpacaEval; its score is 0 for generator_1 to 1. Raises DataUnusable."""
    said = _number(row, "preference", low=1, high=2, also=0)
    score = None if said is None else (said or 1.5) - 1  # 0 is a tie in older files
    controlled = _number(row, "glm_preference", low=0, high=1)
    answer = row.get("output_2")
    values = {"length": float(len(answer))} if isinstance(answer, str) else {}
    yield Judgment(
        model=fields.text(row, "generator_2"),
        judge=fields.text(row, "annotator"),
        item=hashlib.sha256(fields.text(row, "instruction").encode("utf-8", "replace")).hexdigest()[:16],
        score=score,
        reason="no preference" if said is None else f"preference {said:g}",
        against=fields.text(row, "generator_1"),
        group=str(row["dataset"]) if row.get("dataset") else None,
        values=values if controlled is None else values | {LENGTH_CONTROLLED: controlled},
    )


def rating(row: Row) -> Iterator[Judgment]:
    """The judgment of a record of MT-Bench's single answers; its score is 1 to 10. Raises DataUnusable."""
    turn = _turn(row)
    rated = _number(row, "score", low=LOWEST, high=HIGHEST, also=FAILED)
    rated = None if rated == FAILED else rated
    yield Judgment(
        model=fields.text(row, "model"),
        judge=_judge(row),
        item=_question(row),
        score=rated,
        reason=f"{TURNS[turn]}: {'the judge failed' if rated is None else f'{rated:g}'}",
        at=_number(row, "tstamp", low=0, high=1e11) or 0.0,
        turn=turn,
    )


def pair(row: Row) -> Iterator[Judgment]:
    """Both models' judgments of a pair, 1, .5 or 0; a winner that changes with the order of the answers is a tie.

    Raises DataUnusable.
    """
    ours = "model_1" in row
    names = [fields.text(row, name) for name in (("model_1", "model_2") if ours else ("model_a", "model_b"))]
    said = [_winner(row, name) for name in (("g1_winner", "g2_winner") if "g1_winner" in row else ("winner",))]
    first = None if None in said else said[0] if len(set(said)) == 1 else TIE
    common: dict[str, Any] = {"judge": _judge(row), "item": _question(row), "turn": _turn(row)}
    common["at"] = _number(row, "tstamp", low=0, high=1e11) or 0.0
    outcome = {None: "the judge failed", 1.0: "won", 0.0: "lost", TIE: "tied"}
    for model, other, score in ((*names, first), (*reversed(names), None if first is None else 1 - first)):
        told = f"{outcome[score]} against {other}, {TURNS[common['turn']]}"
        yield Judgment(model=model, against=other, score=score, reason=told, **common)


def _number(row: Row, name: str, *, low: float, high: float, also: float | None = None) -> float | None:
    """A number in its bounds, or `also`; None for null and NaN. Raises DataUnusable."""
    value = row.get(name)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    if not plain or not (low <= value <= high or value == also):
        more = "" if also is None else f", or {also:g}"
        row.unusable(f"`{name}` must be a number from {low:g} to {high:g}{more}, found {str(value)[:60]!r}")
    return float(value)


def _winner(row: Row, name: str) -> float | None:
    """1 where the first model won, 0 where the second did, .5 for a tie, None where the judge failed."""
    known = {"model_1": 1.0, "model_a": 1.0, "model_2": 0.0, "model_b": 0.0, "tie": TIE, "error": None}
    said = str(row.get(name)).partition(" ")[0]  # `tie (inconsistent)`
    if said not in known:
        row.unusable(f"`{name}` must be model_1, model_2, model_a, model_b, tie or error, found {row.get(name)!r:.60}")
    return known[said]


def _judge(row: Row) -> str:
    """The judge's name, of [model, prompt] the model's; people are taken together, as in compute_agreement.py."""
    said = row.get("judge")
    if isinstance(said, list) and said:
        said = cast("list[Any]", said)[0]
    if not isinstance(said, str) or not said:
        row.unusable(f"`judge` must be a name, or a list of the model and its prompt, found {row.get('judge')!r:.60}")
    return next((name for start, name in (("expert_", "human"), ("author_", "author")) if said.startswith(start)), said)


def _turn(row: Row) -> int:
    if (turn := row.get("turn")) not in TURNS:
        row.unusable(f"`turn` must be 1 or 2, found {turn!r:.60}")
    return cast("int", turn)


def _question(row: Row) -> str:
    if not isinstance(said := row.get("question_id"), int | str) or isinstance(said, bool):
        row.unusable(f"`question_id` must be a number or a name, found {said!r:.60}")
    return str(said)
