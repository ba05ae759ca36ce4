"""Fits how the answers of different ways are weighed: `python -m tests.reader.weigh` writes `draft_weights.json`.

Questions of our own fitted splits are asked of all our documents, those of the published sets of their own document and
of all. The reader that answers has not seen the document. What is printed is cross-validated by document.
"""

from __future__ import annotations

import argparse
import json
import pickle
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from tasks.grading.cited_answers import has_close_number, has_words
from tasks.language.numbers import read_numbers
from tasks.language.sentences import strip_marks
from tasks.rag.answering.assistant import open_assistant
from tasks.rag.answering.graph import Desk, analyze_query, draft_in_every_way, retrieve_chunks
from tasks.rag.answering.weighing import SIGNS, Way, describe_drafts
from tasks.rag.answering.wiring import Models
from tasks.rag.answers import Calibration, Draft
from tasks.rag.measuring.ranking_metrics import Question, read_questions
from tasks.rag.reading.scorers import Expected, Reader, load_reader
from tests.reader.fit import FOLDS, SETS, Example, Passages, fit, fold_of, make_examples
from tests.reader.questions import FINQA, FITTED, HITAB, TATQA, Item, load_items

ANSWERING = Path(__file__).parents[2] / "tasks" / "rag" / "answering"
RULES_WEIGHT = 0.3
"""Weight of a question beside which rules were written: they are righter there than elsewhere."""
QUESTIONS = Path(__file__).parents[1] / "rag" / "questions"
MOST_OF_A_SET = 150
CALIBRATION = ("calibration", "dev")
"""Splits of our own that no rule was fitted on; the threshold of confidence comes from them and the published sets."""
FOLDS_OF_WEIGHTS = 5


class Weighed(NamedTuple):
    """What the ways answered to a question."""

    set: str
    document: str
    split: str
    drafts: Mapping[Way, Draft]
    is_named: bool
    """Whether the question names its documents."""
    expected: Expected
    is_right: Mapping[Way, bool]

    def signs(self) -> Mapping[Way, Sequence[float]]:
        """Return the signs of each draft that answers."""
        return describe_drafts(self.drafts, is_named=self.is_named, expected=self.expected)


def is_right(item: Item, draft: Draft) -> bool:
    """Return whether an answer is right by the lenient rule of its set; one that cites another document is not."""
    if any(Path(citation.document).name != item.document for citation in draft.citations):
        return False
    line = {"short": draft.short.model_dump() if draft.short else None, "answer": draft.text}
    if item.set == "tatqa":
        return TATQA.is_right(line, item.gold)
    verdict = (FINQA if item.set == "finqa" else HITAB).judge(line, item.gold)
    return (verdict[0] if isinstance(verdict, tuple) else verdict) != "wrong"


def is_right_own(question: Question, draft: Draft) -> bool:
    """Return whether an answer to our own question holds the gold: its numbers, or its words where it has none."""
    gold, text = question.answer, strip_marks(draft.text)
    if not (question.answerable and gold):
        return False
    return has_close_number(text, gold) if read_numbers(gold) else has_words(text, gold)


def draft_answers(
    question: str, documents: Sequence[str] | None, desk: Desk
) -> tuple[dict[Way, Draft], bool, Expected]:
    """Return what each way answers, and what its signs need beside; nothing for a question of several parts."""
    state: Any = {"question": question, "history": (), "documents": documents}
    state |= analyze_query(state, desk)
    state |= retrieve_chunks(state, desk)
    part = draft_in_every_way(state["parts"][0], desk)
    drafts = dict(part.drafts) if len(state["parts"]) == 1 else {}
    return drafts, bool(part.plan.filters.documents), part.expected


def ask_own(indexes: Path, readers: Sequence[Reader]) -> list[Weighed]:
    """Return the answers to our own questions of the splits that may be fitted on, asked of all our documents."""
    rows: list[Weighed] = []
    with open_assistant(indexes / "own", models=Models(), patient=False) as assistant:
        for path in sorted(QUESTIONS.glob("*.jsonl")):
            for question in read_questions(path):
                split = question.labels["split"]
                if question.turns or split not in FITTED:
                    continue
                document = question.document or question.id
                desk = replace(assistant.desk, reader=readers[zlib.crc32(document.encode()) % FOLDS])
                drafts, named, expected = draft_answers(question.question, None, desk)
                right: dict[Way, bool] = {way: is_right_own(question, draft) for way, draft in drafts.items()}
                rows.append(Weighed("own", document, split, drafts, named, expected, right))
    return rows


def ask_set(name: str, indexes: Path, readers: Sequence[Reader], *, is_open: bool) -> list[Weighed]:
    """Return the answers to a spread part of a set's questions, asked of their own documents or of all."""
    items = load_items(name)
    items = items[:: max(1, len(items) // MOST_OF_A_SET)][:MOST_OF_A_SET]
    rows: list[Weighed] = []
    with open_assistant(indexes / name, models=Models(), patient=False) as assistant:
        digests = {each: entry.document for entry in assistant.index.catalogue for each in (entry.name, *entry.aliases)}
        for item in items:
            desk = replace(assistant.desk, reader=readers[zlib.crc32(item.document.encode()) % FOLDS])
            drafts, named, expected = draft_answers(item.question, None if is_open else (digests[item.document],), desk)
            right: dict[Way, bool] = {way: is_right(item, draft) for way, draft in drafts.items()}
            rows.append(Weighed(f"{name}{' open' * is_open}", item.document, "", drafts, named, expected, right))
    return rows


def fit_weights(rows: Sequence[Weighed]) -> LogisticRegression:
    """Return the regression from signs to the chance that an answer is right."""
    pairs = [
        (signs, row.is_right[way], RULES_WEIGHT if row.split == "develop" else 1.0)
        for row in rows
        for way, signs in row.signs().items()
    ]
    signs, right, weights = zip(*pairs, strict=True)
    return LogisticRegression(C=0.3, max_iter=3000).fit(np.array(signs), right, sample_weight=weights)


def choose(model: LogisticRegression, rows: Sequence[Weighed]) -> list[tuple[Weighed, float, bool]]:
    """Return for each question the confidence of its likeliest answer, and whether that is right; 0 without any."""
    chosen: list[tuple[Weighed, float, bool]] = []
    for row in rows:
        signs = row.signs()
        ways = list(signs)
        chances = model.predict_proba(np.array(list(signs.values())))[:, 1] if ways else np.zeros(1)
        best = int(chances.argmax())
        chosen.append((row, float(chances[best]), bool(ways) and row.is_right[ways[best]]))
    return chosen


def report(chosen: Sequence[tuple[Weighed, float, bool]]) -> None:
    """Print right and wrong by set at even odds and where at most a tenth of all is wrong."""
    for name in dict.fromkeys(row.set for row, _, _ in chosen):
        part = sorted(((sure, right) for row, sure, right in chosen if row.set == name), key=lambda pair: -pair[0])
        right = np.cumsum([right for _, right in part])
        wrong = np.cumsum([sure > 0 and not right for sure, right in part])
        at_even = sum(sure >= 0.5 for sure, _ in part)
        fine = int((wrong <= 0.1 * len(part)).sum())
        print(
            f"{name:12} {len(part)} questions; at .50: {right[at_even - 1]} right, {wrong[at_even - 1]} wrong; "
            f"at .10 wrong: {right[fine - 1]} right from {part[fine - 1][0]:.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--indexes", type=Path, required=True, help="folder with an index of each set's documents")
    parser.add_argument("--cache", type=Path, required=True, help="folder of the questions that `fit` prepared")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows_path = args.cache / "weighed.pickle"
    if rows_path.exists():
        rows: list[Weighed] = pickle.loads(rows_path.read_bytes())  # noqa: S301 (written by this script)
    else:
        readers = fit_folds(args.cache)
        rows = ask_own(args.indexes, readers)
        for name in SETS[:3]:
            for is_open in (False, True)[: 2 if name == "tatqa" else 1]:
                rows += ask_set(name, args.indexes, readers, is_open=is_open)
        rows_path.write_bytes(pickle.dumps(rows))
    folds = np.array([zlib.crc32(row.document.encode()) % FOLDS_OF_WEIGHTS for row in rows])
    held: list[tuple[Weighed, float, bool]] = []
    for fold in range(FOLDS_OF_WEIGHTS):
        model = fit_weights([row for row, other in zip(rows, folds, strict=True) if other != fold])
        held += choose(model, [row for row, other in zip(rows, folds, strict=True) if other == fold])
    report(held)
    model = fit_weights(rows)
    weights = {sign: round(float(weight), 3) for sign, weight in zip(SIGNS, model.coef_[0], strict=True)}
    weights_text = json.dumps({"bias": round(float(np.ravel(model.intercept_)[0]), 3), "weights": weights}, indent=1)
    (ANSWERING / "draft_weights.json").write_text(weights_text + "\n", "utf-8")
    judged = [(sure, right) for row, sure, right in held if row.split in CALIBRATION or row.set != "own"]
    calibration = Calibration(
        questions="our own questions, TAT-QA, FinQA and HiTab",
        made_on=datetime.now(UTC).date(),
        n=len(judged),
        right=tuple(sorted(round(sure, 4) for sure, right in judged if right)),
        wrong=tuple(sorted(round(sure, 4) for sure, right in judged if sure and not right)),
    )
    (ANSWERING / "calibration.json").write_text(calibration.model_dump_json() + "\n", "utf-8")


def fit_folds(cache: Path) -> list[Reader]:
    """Return readers of which each has not seen a third of the documents."""
    order = load_reader().order
    every: list[Example] = []
    for name in SETS:
        prepared: tuple[str | None, list[Passages]] = pickle.loads((cache / f"{name}-passages.pickle").read_bytes())  # noqa: S301
        every += make_examples(*prepared, order)
    return [fit([example for example in every if fold_of(example) != fold], order).reader for fold in range(FOLDS)]


if __name__ == "__main__":
    main()
