"""Fits the reader: `python -m tests.reader.fit` (what `make reader` runs) writes weights, card and tables.

Each set is indexed by Trivet itself, each question retrieved in its own document, so that the reader is fitted on what
it meets. Cross-validated by document, and with each set left out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pickle
import re
import subprocess
import sys
import time
import tomllib
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch

from models.embedders import open_embedder
from storage.index import open_index
from tasks.language.tokens import HANGUL, Stems
from tasks.rag.answers import Filters
from tasks.rag.planning import plan as planning
from tasks.rag.planning.routing import Router
from tasks.rag.reading.candidates import OF, OPERATIONS, Candidate, Packed, list_candidates, pack
from tasks.rag.reading.cell_features import HAND_WEIGHTS, describe_cells
from tasks.rag.reading.pages import Page, Question, compare_documents, stems_of_all
from tasks.rag.reading.reader import select_records
from tasks.rag.reading.scorers import (
    BUCKETS,
    FLOOR,
    HAND_CHOICE,
    SIGNS,
    Network,
    Ranked,
    Reader,
    describe_candidates,
    hash_words,
    question_words,
    weigh_choice,
)
from tasks.rag.retrieval.search import Hit, retrieve
from tests.reader.drawn import draw_questions
from tests.reader.questions import Item, find_targets, load_items, score, write_documents

SETS = ("tatqa", "finqa", "hitab", "own", "open", "drawn")
"""`open`: a third of TAT-QA's questions, asked of all its documents: there only the confidence is fitted.

`drawn`: questions drawn from the tables of our own documents: there cells and their choice are fitted, nothing else.
"""
INDEX_OF = {"open": "tatqa", "drawn": "own"}
DRAWN_OF_A_DOCUMENT = 24
FOLDS = 3
MOST_DOCUMENTS = 3
OWN_REPEAT = 1
"""How often our own questions come again: they are few, and the only ones in Korean."""
MOST_LABEL = 60
"""Characters of labels with which phrasings are filled."""
PHRASINGS = Path(__file__).with_name("phrasings.toml")


class Example(NamedTuple):
    """A question with everything that no weight touches."""

    item: Item
    page: Page
    question: Question
    features: np.ndarray
    candidates: list[Candidate]
    """Without their links, which `packed` holds."""
    packed: Packed
    operation: str | None
    right: np.ndarray
    words: list[int]


Passages = tuple[Item, Sequence[Hit], list[dict[str, Any]], Filters]


def find_passages(name: str, index_folder: Path) -> tuple[str | None, list[Passages]]:
    """Return the tokenizer of the index of a set, and its questions with their hits and the cells of their tables."""
    if not (index_folder / "CURRENT").exists():
        documents = index_folder.with_name(f"{name}-documents")
        write_documents(name, documents)
        trivet = Path(sys.executable).with_name("trivet")
        subprocess.run([trivet, "rag", "index", documents, "--index", index_folder], check=False)
    index = open_index(index_folder)
    embedder = open_embedder(index.manifest.embedder.partition("@")[0])
    digest_of = {name: entry.document for entry in index.catalogue for name in (entry.name, *entry.aliases)}
    passages: list[Passages] = []
    router = Router(index.catalogue)
    drawn = draw_questions(index, per_document=DRAWN_OF_A_DOCUMENT) if name == "drawn" else None
    for item in load_items(name) if drawn is None else drawn:
        filters = router.route(item.question, query_type="single", history=())
        if name not in ("own", "open", "drawn"):  # each question of its own page, as those who made it asked
            filters = Filters(mode="only", documents=(digest_of[item.document],))
        alone = planning.similarity_alone(index.manifest.embedder, item.question)
        plan = planning.make_plan(item.question, filters=filters, similarity_alone=alone)
        hits = retrieve(index, item.question, plan, embedder=lambda: embedder).hits
        passages.append((item, hits, select_records(item.question, hits, index), filters))
    return index.manifest.tokenizer, passages


def make_examples(tokenizer: str | None, passages: Sequence[Passages], order: np.ndarray) -> list[Example]:
    """Return the questions with their pages, candidates and golds; order: of cells, as in Reader."""
    stems, examples = Stems(tokenizer), []
    for item, hits, records, filters in passages:
        # each document is read by itself; from those that do not hold the answer the confidence learns to doubt
        standings = compare_documents(hits, is_named=bool(filters.documents))
        for document, standing in list(standings.items())[:MOST_DOCUMENTS]:
            own = [hit for hit in hits if hit.chunk.document == document]
            page = Page(own, records, stems, documents=filters.documents, standing=standing)
            question = Question(item.question, stems, [match.said for match in filters.matches])
            features = describe_cells(page, question)
            candidates = list_candidates(page, question, features @ order)
            operation, right = find_targets(item, page, candidates)
            ops, cells, links = pack(candidates)
            packed = Packed(ops, cells, links.astype(np.float16))  # a tenth of their memory as dictionaries
            candidates = [candidate._replace(links={}) for candidate in candidates]
            words = hash_words(question_words(question, page.label_stems, has_sentences=bool(page.sentences)))
            examples.append(
                Example(
                    item, page, question, features, candidates, packed, operation, np.array(right, np.float32), words
                )
            )
    return examples


class Listwise:
    """Fits a network whose scores are compared within a question, by the chance of any right row."""

    def __init__(self, hidden: int, epochs: int, *, seed: int = 0, rate: float = 3e-3) -> None:
        self.hidden, self.epochs, self.seed, self.rate = hidden, epochs, seed, rate

    def fit(self, tables: Sequence[np.ndarray], golds: Sequence[np.ndarray], most: int = 60) -> Network:
        """Return the network; tables: (rows, features) of each question. golds: which rows are right.

        most: wrong rows of a question that are compared. Without hidden units `second` weighs the features themselves.
        """
        random = np.random.default_rng(self.seed)
        torch.manual_seed(self.seed)
        groups = []
        for rows, gold in zip(tables, golds, strict=True):
            if not gold.any() or gold.all():
                continue
            wrong = random.permutation(np.flatnonzero(gold == 0))[:most]
            take = np.concatenate([np.flatnonzero(gold), wrong])
            groups.append((rows[take], gold[take] > 0))
        stack = np.concatenate([rows for rows, _ in groups]).astype(np.float32)
        mean, deviation = stack.mean(0), stack.std(0) + 1e-3
        groups = [
            (torch.from_numpy((rows - mean) / deviation).float(), torch.from_numpy(gold)) for rows, gold in groups
        ]
        width = max(1, self.hidden)
        first, last = torch.nn.Linear(stack.shape[1], width), torch.nn.Linear(width, 1)
        net: torch.nn.Module = torch.nn.Sequential(first, torch.nn.ReLU(), torch.nn.Dropout(0.1), last)
        if not self.hidden:
            net = last = torch.nn.Linear(stack.shape[1], 1)
        optimizer = torch.optim.AdamW(net.parameters(), lr=self.rate, weight_decay=1e-2)
        batches = max(1, len(groups) // 48)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.rate, total_steps=batches * self.epochs + 1)
        for _ in range(self.epochs):
            for part in np.array_split(random.permutation(len(groups)), batches):
                scores = net(torch.cat([groups[at][0] for at in part]))[:, 0]
                right = torch.cat([groups[at][1] for at in part])
                group = torch.from_numpy(np.repeat(np.arange(len(part)), [len(groups[at][1]) for at in part]))
                top = torch.full((len(part),), -1e9).scatter_reduce(0, group, scores, "amax").detach()
                norm = torch.zeros(len(part)).index_add(0, group, torch.exp(scores - top[group])).log() + top
                hit = torch.zeros(len(part)).index_add(0, group, torch.exp(scores - norm[group]) * right)
                loss = -(hit + 1e-6).log().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
        weights = [first.weight.T, first.bias, last.weight[0]]
        return Network(
            mean.astype(np.float32), deviation.astype(np.float32), *(each.detach().numpy().copy() for each in weights)
        )


FILLS, FILL_WEIGHT, OWN_WEIGHT = 6, 1.0, 3.0
"""How often each phrasing is filled, and the weights of one filled and of one of our own questions."""


def fill_phrasings(examples: Sequence[Example]) -> Iterator[tuple[list[int], str]]:
    """Yield the words and the operation of questions that `phrasings.toml` gives with labels of the examples' tables.

    A set asks in few ways: of FinQA, left out, 30 % are answered with 821 phrasings and 28 % with a third of them.
    """
    random = Random(0)
    by_script: dict[bool, tuple[set[str], set[str]]] = {False: (set(), set()), True: (set(), set())}
    for example in examples:
        for row in example.page.rows:
            by_script[bool(HANGUL.search(row.name))][0].add(row.name)
        for column in example.page.columns:
            by_script[bool(HANGUL.search(" ".join(column.heads)))][1].update(column.heads[-1:])
    labels = {
        script: [
            sorted(label for label in part if 2 < len(label) < MOST_LABEL and re.search("[^\\W\\d]", label))
            for part in parts
        ]
        for script, parts in by_script.items()
    }
    stems = next(example.page.stems for example in examples if example.item.set == "own") if labels[True][0] else None
    for operation, phrasings in tomllib.loads(PHRASINGS.read_text("utf-8")).items():
        for phrasing in phrasings:
            korean = bool(HANGUL.search(phrasing))
            rows, heads = labels[korean]
            for _ in range(FILLS if rows and heads else 0):
                row, other, third = (random.choice(rows) for _ in range(3))
                year = random.randint(2001, 2025)
                head = random.choice(heads)
                text = phrasing.format(row=row, other=other, third=third, head=head, year=year, before=year - 1)
                question = Question(text, stems or examples[0].page.stems)
                known = stems_of_all(stems or examples[0].page.stems, (row, other, third, head))
                yield hash_words(question_words(question, known, has_sentences=random.random() < 0.7)), operation


def fit_operations(examples: Sequence[Example]) -> tuple[np.ndarray, np.ndarray]:
    """Return weights (BUCKETS, operations) and bias of the multinomial regression from words to the operation."""
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import LogisticRegression

    rows = [
        (e.words, e.operation, OWN_WEIGHT if e.item.set == "own" else 1.0)
        for e in examples
        if e.operation and e.item.set != "drawn"  # of these the phrasings are known
    ]
    rows += [(words, operation, FILL_WEIGHT) for words, operation in fill_phrasings(examples)]
    ends = np.cumsum([0, *(len(words) for words, _, _ in rows)])
    places = np.concatenate([np.array(words) for words, _, _ in rows])
    table = csr_matrix((np.ones(len(places), np.float32), places, ends), shape=(len(rows), BUCKETS))
    model = LogisticRegression(C=0.3, max_iter=150, tol=1e-3)
    model.fit(table, [OF[operation] for _, operation, _ in rows], sample_weight=[weight for _, _, weight in rows])
    weights = np.zeros((BUCKETS, len(OPERATIONS)), np.float32)
    bias = np.full(len(OPERATIONS), FLOOR, np.float32)
    weights[:, model.classes_], bias[model.classes_] = model.coef_.T, model.intercept_
    return weights, bias


def fit_order(examples: Sequence[Example]) -> np.ndarray:
    """Return the weights of the features of cells by whose sum candidates are made of the best cells.

    Of FinQA's answers 77 % are among the candidates by hand weights, 79 % by these, 82 % with more pairs as well.
    """
    network = Listwise(0, 8, rate=2e-2).fit([e.features for e in examples], [cell_golds(e) for e in examples], 200)
    return network.second / network.deviation


def cell_golds(example: Example) -> np.ndarray:
    """Return which cells the right candidates are made of."""
    gold = np.zeros(len(example.features), np.float32)
    for at in np.flatnonzero(example.right).tolist():
        gold[list(example.candidates[at].cells)] = 1
    return gold


def fold_of(example: Example) -> int:
    """Return the fold of a question: that of its document."""
    return zlib.crc32(example.item.document.encode()) % FOLDS


class Fitted(NamedTuple):
    """A reader, and what it said of questions of documents that its parts had not seen."""

    reader: Reader
    held: list[tuple[Example, Candidate | None, float]]


def fit_scorers(examples: Sequence[Example], hidden: int) -> Reader:
    """Return a reader without choice: operations and cells."""
    examples = [example for example in examples if example.item.set != "open"]  # they are TAT-QA's once more
    operations, bias = fit_operations(examples)
    cells = None
    examples += [example for example in examples if example.item.set == "own"] * OWN_REPEAT
    if hidden:
        cells = Listwise(64, 14).fit([e.features for e in examples], [cell_golds(e) for e in examples])
    return Reader(operations, bias, cells, None, np.zeros(len(SIGNS) + 1, np.float32))


def rank(reader: Reader, example: Example) -> Ranked:
    """Return the candidates of an example as the choice sees them."""
    operations = reader.likely_operations(example.question, example.page)
    features = example.features
    return describe_candidates(example.candidates, example.packed, features, operations, reader.score_cells(features))


def fit_choice(ranked: Sequence[Ranked], examples: Sequence[Example]) -> Network:
    """Return the network that chooses among candidates."""
    pairs = [(each, e) for each, e in zip(ranked, examples, strict=True) if e.item.set != "open"]
    pairs += [pair for pair in pairs if pair[1].item.set == "own"] * OWN_REPEAT
    # beside 60 wrong candidates FinQA's right ones were chosen in 37 %, beside 200 in 39 %, beside 500 no more often
    return Listwise(48, 10).fit([each.table for each, _ in pairs], [e.right[each.places] for each, e in pairs], 200)


def fit(examples: Sequence[Example], order: np.ndarray, *, hidden: int = 48, calibrate: bool = True) -> Fitted:
    """Fit all parts but the order of cells; what one part is fitted on comes from others that have not seen the
    document."""
    from sklearn.linear_model import LogisticRegression

    folds = np.array([fold_of(example) for example in examples])
    ranked: list[Any] = [None] * len(examples)
    for fold in range(FOLDS):
        part = fit_scorers([e for e, f in zip(examples, folds, strict=True) if f != fold], hidden)
        for at in np.flatnonzero(folds == fold).tolist():
            each = rank(part, examples[at])
            ranked[at] = each._replace(table=each.table.astype(np.float16))  # a third of a gigabyte
    held: list[tuple[Example, Candidate | None, float]] = []
    signs, right, kept = [], [], []
    for fold in range(FOLDS if calibrate else 0):
        inside = np.flatnonzero(folds != fold).tolist()
        choice = fit_choice([ranked[at] for at in inside], [examples[at] for at in inside]) if hidden else None
        for at in np.flatnonzero(folds == fold).tolist():
            example, table = examples[at], ranked[at]
            if not table.candidates:
                if example.item.set == "drawn":
                    continue
                held.append((example, None, 0.0))
                continue
            scores = choice.score(table.table) if choice else table.table @ HAND_CHOICE
            if example.item.set == "drawn":
                continue
            best, its_signs = weigh_choice(table, scores, example.page.standing)
            signs.append(its_signs)
            right.append(score(example.item, example.page, table.candidates[best])[0] > 0)
            kept.append((example, table.candidates[best]))
    confidence = np.zeros(len(SIGNS) + 1, np.float32)
    if calibrate:
        model = LogisticRegression(C=1.0, max_iter=2000).fit(signs, right)
        confidence = np.array([*model.coef_[0], model.intercept_[0]], np.float32)
        sure = model.predict_proba(signs)[:, 1]
        held += [(example, candidate, float(each)) for (example, candidate), each in zip(kept, sure, strict=True)]
    reader = fit_scorers(examples, hidden)
    choice = fit_choice(ranked, examples) if hidden else None
    return Fitted(reader._replace(choice=choice, confidence=confidence, order=order), held)


def pack_reader(reader: Reader) -> dict[str, np.ndarray]:
    """Return the reader as named tensors; the large ones in half precision."""
    assert reader.cells
    assert reader.choice
    tensors: dict[str, np.ndarray] = {
        "operations": reader.operations.astype(np.float16),
        "operations_bias": reader.operations_bias,
        "confidence": reader.confidence,
        "order": reader.order,
    }
    for name, network in (("cells", reader.cells), ("choice", reader.choice)):
        tensors |= {f"{name}.{field}": np.ascontiguousarray(getattr(network, field)) for field in Network._fields}
    return tensors


def read(reader: Reader, examples: Sequence[Example]) -> list[tuple[Example, Candidate | None, float]]:
    """Return the choice for each question, with its confidence."""
    out: list[tuple[Example, Candidate | None, float]] = []
    for example in examples:
        ranked = rank(reader, example)
        if not ranked.candidates:
            out.append((example, None, 0.0))
            continue
        scores = reader.choice.score(ranked.table) if reader.choice else ranked.table @ HAND_CHOICE
        best, signs = weigh_choice(ranked, scores, example.page.standing)
        logit = float(np.dot(reader.confidence[:-1], signs) + reader.confidence[-1])
        out.append((example, ranked.candidates[best], float(1 / (1 + np.exp(-logit)))))
    return out


def report(answers: Sequence[tuple[Example, Candidate | None, float]], label: str) -> dict[str, Any]:
    """Print and return exact, F1, and right and wrong where at most a tenth of all is wrong, with intervals."""
    results: dict[str, Any] = {}
    by_set: dict[str, list[tuple[str, float, float, float, str]]] = defaultdict(list)
    surest: dict[int, tuple[Example, Candidate | None, float]] = {}
    for answer in answers:  # of the documents that were read for a question the surest
        key = id(answer[0].item)
        if key not in surest or answer[2] > surest[key][2]:
            surest[key] = answer
    for example, candidate, sure in surest.values():
        exact, overlap = (0.0, 0.0) if candidate is None else score(example.item, example.page, candidate)
        by_set[example.item.set].append(
            (example.item.document, exact, overlap, sure, candidate.operation if candidate else "")
        )
    for name, rows in by_set.items():
        exact, sure = np.array([row[1] for row in rows]), np.array([row[3] for row in rows])
        order = np.argsort(-sure, kind="stable")
        wrong = np.cumsum(exact[order] == 0) / len(rows)
        fine = np.flatnonzero(wrong <= 0.10)
        answered = int(fine[-1]) + 1 if len(fine) else 0
        low, high = interval([row[0] for row in rows], exact)
        results[name] = {
            "questions": len(rows),
            "exact": round(100 * float(exact.mean()), 1),
            "interval": [low, high],
            "f1": round(100 * float(np.mean([row[2] for row in rows])), 1),
            "right at .10 wrong": round(100 * float(exact[order][:answered].sum()) / len(rows), 1),
            "confidence at .10 wrong": round(float(sure[order][answered - 1]), 3) if answered else 1.0,
        }
        print(f"{label:16} {name:6}", *results[name].values(), flush=True)
    return results


def interval(documents: Sequence[str], values: np.ndarray, draws: int = 1000) -> tuple[float, float]:
    """Return the 95 % interval of a mean in percent, drawn over documents."""
    names = {document: at for at, document in enumerate(dict.fromkeys(documents))}
    at = np.array([names[document] for document in documents])
    total, count = np.bincount(at, values, len(names)), np.bincount(at, minlength=len(names))
    take = np.random.default_rng(0).integers(0, len(names), (draws, len(names)))
    means = total[take].sum(1) / count[take].sum(1)
    low, high = np.percentile(means, [2.5, 97.5])
    return round(100 * float(low), 1), round(100 * float(high), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--indexes", type=Path, required=True, help="folder with an index of each set's documents")
    parser.add_argument("--cache", type=Path, help="folder for prepared questions")
    parser.add_argument("--left-out", action="store_true", help="also the tables with a set left out")
    parser.add_argument("--quick", action="store_true", help="only the cross-validated table")
    parser.add_argument("--out", type=Path, help="folder for weights and card")
    args = parser.parse_args()
    torch.set_num_threads(1)
    passages: dict[str, tuple[str | None, list[Passages]]] = {}
    for name in SETS:
        path = args.cache / f"{name}-passages.pickle" if args.cache else None
        if path and path.exists():
            passages[name] = pickle.loads(path.read_bytes())  # noqa: S301 (written by this script)
        else:
            passages[name] = find_passages(name, args.indexes / INDEX_OF.get(name, name))
            if path:
                path.write_bytes(pickle.dumps(passages[name], 5))
    few = [
        example
        for tokenizer, part in (passages[name] for name in SETS[:4])
        for example in make_examples(tokenizer, part[::3], HAND_WEIGHTS)
    ]
    order = fit_order(few)
    data: dict[str, list[Example]] = {}
    for name in SETS:
        started = time.process_time()
        data[name] = make_examples(*passages[name], order)
        spent = 1000 * (time.process_time() - started) / len(data[name])
        print(f"{name}: {len(data[name])} questions, {spent:.0f} ms each", flush=True)
    for name, examples in data.items():
        known = np.mean([e.operation is not None for e in examples])
        reach = np.mean([e.right.any() for e in examples])
        print(
            f"{name}: operation known {known:.3f}, right candidate {reach:.3f}, "
            f"candidates {np.mean([len(e.candidates) for e in examples]):.0f}",
            flush=True,
        )
    every = [example for examples in data.values() for example in examples]
    started = time.process_time()
    fitted = fit(every, order)
    print(f"fitted in {time.process_time() - started:.0f} s")
    card: dict[str, Any] = {"cross-validated by document": report(fitted.held, "cross-validated")}
    if (args.out and not args.quick) or args.left_out:
        card["set left out"] = {}
        for name in SETS[:-2]:
            also = {"tatqa": "open", "own": "drawn"}.get(name, name)
            rest = [example for example in every if example.item.set not in (name, also)]
            other = fit(rest, order).reader
            card["set left out"] |= report(read(other, data[name]), "left out")
    if args.out:
        from safetensors.numpy import save

        weights = save(pack_reader(fitted.reader))
        (args.out / "reader.safetensors").write_bytes(weights)
        card |= {
            "questions": {name: len(examples) for name, examples in data.items()},
            "sha256": hashlib.sha256(weights).hexdigest(),
        }
        (args.out / "card.json").write_text(json.dumps(card, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
