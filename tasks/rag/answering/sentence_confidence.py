"""How likely a sentence answers a question, from what it says and what it lacks."""

from __future__ import annotations

import math
from typing import NamedTuple

from tasks.rag.answering.passage_scores import Scored
from tasks.rag.answering.question_reading import Question

# Logistic regression (L2, C = 1) on the best sentence of 331 questions: the calibration half of
# tests/rag/questions/answers.jsonl, the half of shared.jsonl for choosing settings, and the questions over the samples,
# which weigh .6 because the rules grew beside them. Cross-validated by document (10 folds), over the 119 questions of
# the calibration half that sentences answer: area under the curve .85 (.68 on shared.jsonl); of the answers from .5 on,
# 24 are right and 8 wrong. With the lead over the next sentence and coverage by headings it was the same within noise.
CONSTANT = -1.6
WRONG_TYPE = -1.5
OPEN_TYPE = -0.4
IN_TEXT = 2.3
FOCUS_IN_TEXT = 1.0
NOWHERE = -1.6
MISSING = -1.4
OTHER_PERIOD = -0.5
FIRST_HIT = 1.0
OF_SEVERAL = 1.5
"""A passage on one of several things that are asked about holds a share of the question."""


class Evidence(NamedTuple):
    """What tells how sure a sentence is."""

    wrong_type: bool
    """It lacks the type of answer that is asked for: a date, a person, money …"""
    open_type: bool
    """The question asks for no type that could be checked."""
    in_text: float
    """Share of the question's words, by rarity, in the sentence: 0 … 1."""
    focus_in_text: float
    """The same, of the words that name what is asked for."""
    nowhere: float
    """Share of the question's words, by rarity, that neither sentence, headings, document name nor passage hold."""
    missing: bool
    """A name, year or number of the question stands nowhere around it."""
    other_period: bool
    """It tells of another year than the question."""
    first_hit: float
    """1 for the passage that was found first, 1/2 for the second …"""


def evidence_of(best: Scored, question: Question, *, several: bool = False) -> Evidence:
    """several: the sentence is on one of several things; it need not hold the names of the others."""
    share = OF_SEVERAL if several else 1.0
    return Evidence(
        wrong_type=not best.answers_kind,
        open_type=question.wants == "text",
        in_text=min(1.0, share * best.in_text),
        focus_in_text=best.focus_in_text,
        nowhere=best.nowhere if not several else max(0.0, 1 - share * (1 - best.nowhere)),
        missing=any(not several or any(sign.isdigit() for sign in word) for word in best.missing),
        other_period=best.other_period and not several,
        first_hit=1 / (1 + best.passage.hit) if not several else 1.0,
    )


def confidence_of(evidence: Evidence) -> float:
    """Probability that the sentence is right, 0 … 1."""
    sign = CONSTANT + WRONG_TYPE * evidence.wrong_type + OPEN_TYPE * evidence.open_type
    sign += IN_TEXT * evidence.in_text + FOCUS_IN_TEXT * evidence.focus_in_text + NOWHERE * evidence.nowhere
    sign += MISSING * evidence.missing + OTHER_PERIOD * evidence.other_period + FIRST_HIT * evidence.first_hit
    return 1 / (1 + math.exp(-sign))
