"""The question sets that the reader is fitted on: their golds, which candidates give them, and when an answer is right.

The sets lie beside the project (`../shared/data`); their rules of judgement are those of `../shared/checks`.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from tasks.grading.cited_answers import has_close_number, has_words
from tasks.language.numbers import read_numbers
from tasks.rag.reading.candidates import IN_PERCENT, Candidate, scale_of, short_texts
from tasks.rag.reading.pages import Page

SHARED = Path(__file__).parents[2].parent / "shared"


class Item(NamedTuple):
    """A question with its gold."""

    set: str
    document: str
    question: str
    gold: Any


def load_check(name: str) -> ModuleType:
    """Return a module of `../shared/checks`."""
    spec = importlib.util.spec_from_file_location(f"check_{name}", SHARED / "checks" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FITTED = ("develop", "calibration", "dev")
"""Splits of our own questions that may be fitted on; the others are for measuring."""
OWN_FOLDERS = ("english", "filings", "hwp", "hwp_pages", "korean")
"""Folders of documents that our own questions are about, beside the samples."""
TATQA, FINQA, HITAB = map(load_check, ("tatqa", "finqa", "hitab"))


def load_items(name: str) -> list[Item]:
    """Return the questions of a set: `tatqa`, `finqa` or `hitab`."""
    if name == "own":
        folder = Path(__file__).parents[1] / "rag" / "questions"
        rows = [
            json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text("utf-8").splitlines()
        ]
        return [
            Item(name, row.get("document") or row["id"], row["question"], row) for row in rows if row["split"] in FITTED
        ]
    if name == "open":
        return [item._replace(set=name) for item in load_items("tatqa")[::3]]
    data = SHARED / "data" / name
    if name == "tatqa":
        contexts = json.loads((data / "dev.json").read_text("utf-8"))
        return [Item(name, TATQA.name_of(c), q["question"], q) for c in contexts for q in c["questions"]]
    if name == "finqa":
        contexts = json.loads((data / "dev.json").read_text("utf-8"))
        return [Item(name, FINQA.name_of(c), c["qa"]["question"], c) for c in contexts]
    lines = (data / "dev_samples.jsonl").read_text("utf-8").split("\n")
    samples = [json.loads(line) for line in lines if line]
    return [Item(name, HITAB.name_of(s), s["question"], s) for s in samples if isinstance(s["question"], str)]


def write_documents(name: str, folder: Path) -> None:
    """Write the documents of a set as HTML, as its check does; those of our own questions are copied."""
    folder.mkdir(parents=True, exist_ok=True)
    data = SHARED / "data" / name
    if name == "own":
        for name in OWN_FOLDERS:
            shutil.copytree(SHARED / "data" / "documents" / name, folder / name, dirs_exist_ok=True)
        shutil.copytree(Path(__file__).parents[1] / "samples" / "documents", folder / "samples", dirs_exist_ok=True)
        return
    if name == "hitab":
        for item in load_items(name):
            table = json.loads((data / "tables_raw" / f"{item.gold['table_id']}.json").read_text("utf-8"))
            (folder / item.document).write_text(HITAB.page(table), "utf-8")
        return
    check = {"tatqa": TATQA, "finqa": FINQA}[name]
    for context in json.loads((data / "dev.json").read_text("utf-8")):
        (folder / check.name_of(context)).write_text(check.page(context), "utf-8")


def score(item: Item, page: Page, candidate: Candidate) -> tuple[float, float]:
    """Return exact match and F1 of a candidate by the rule of its set; F1 is exact match but in TAT-QA."""
    if item.set == "own":
        exact = float(_gives_own(item, page, candidate))
        return exact, exact
    if item.set == "open" and page.hits[0].document_name != item.document:
        return 0.0, 0.0  # of another company's report
    texts, scale = short_texts(candidate), scale_of(page, candidate)
    if item.set in ("tatqa", "open"):
        exact, overlap = TATQA.em_f1(list(texts), scale, item.gold)
        return exact, overlap
    line = {"short": {"values": list(texts), "scale": scale}, "answer": ""}
    check = FINQA if item.set == "finqa" else HITAB
    verdict = check.judge(line, item.gold)
    exact = float((verdict[0] if isinstance(verdict, tuple) else verdict) == "exact")
    return exact, exact


# ---- which candidates give the gold, for fitting
_FIGURE = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?|(?<![\w.])\.\d+")


@lru_cache(200_000)
def _number(text: str) -> float | None:
    found = HITAB.figures(text)
    return found[0][0] if len(found) == 1 and not re.search(r"[A-Za-z]{3}", text.replace("percent", "")) else None


def _key(texts: Sequence[str]) -> list[str]:
    words = (
        "".join(char if char.isalnum() else " " for char in unicodedata.normalize("NFC", str(text)).lower()).split()
        for text in texts
    )
    return sorted("".join(word for word in each if word not in ("a", "an", "the")) for each in words)


def _looks_right(item: Item, candidate: Candidate) -> bool:
    """Judge a candidate quickly, without its scale word."""
    number = None if candidate.number is None else float(candidate.number)
    percent = candidate.operation in IN_PERCENT
    if item.set == "finqa":
        gold = item.gold["qa"]["exe_ans"]
        if isinstance(gold, str):
            return candidate.operation == "yesno" and candidate.texts[0] == gold
        if number is None:
            number = _number(candidate.texts[0]) if candidate.operation == "value" else None
        if number is None:
            return False
        tries = [number, number / 100] if percent else [number]
        return any(abs(each - gold) <= 1e-4 + 1e-3 * abs(gold) for each in tries)
    if item.set == "tatqa":
        gold, kind = item.gold["answer"], item.gold["answer_type"]
        if kind in ("arithmetic", "count"):
            counts = candidate.operation == "count"
            return number is not None and counts == (kind == "count") and round(number, 2) == round(float(gold), 2)
        return number is None and candidate.operation != "yesno" and _key(candidate.texts) == _key(gold)
    gold, divides = item.gold["answer"], any("/" in str(formula) for formula in item.gold["answer_formulas"])
    texts = short_texts_quick(candidate)
    if len(texts) != len(gold):
        return False
    return all(any(HITAB.same(text, each, divides) for text in texts) for each in gold)


def short_texts_quick(candidate: Candidate) -> tuple[str, ...]:
    """Return the texts of a candidate without its page."""
    return candidate.texts or (f"{float(candidate.number or 0):.6f}",)


def _named_figures(item: Item) -> set[float]:
    """Return the numbers that the gold reasons with, where it says so."""
    if item.set == "tatqa":
        text = item.gold["derivation"] if item.gold["answer_type"] == "arithmetic" else ""
    elif item.set == "finqa":
        program = item.gold["qa"]["program"]
        text = "" if "table_" in program else program.replace("(", " ").replace(")", " ")
    else:
        linked = item.gold.get("linked_cells", {}).get("quantity_link", {}).get("[ANSWER]", {})
        text = " ".join(str(value) for value in linked.values() if isinstance(value, int | float))
    return {float(figure.replace(",", "")) for figure in _FIGURE.findall(text.replace("%", " "))}


_FIRST = (
    "value", "growth", "difference", "average", "share", "ratio", "sum", "list", "labels", "product", "count", "argmax",
    "argmin", "max", "min", "yesno", "span",
)  # fmt: skip


def _operation_of(item: Item, right: set[str]) -> str | None:
    """Return one operation of those that give the right answer, by what the gold says of its own."""
    gold, first = item.gold, list(_FIRST)
    if item.set == "tatqa" and (">" in gold["derivation"] or "<" in gold["derivation"]):
        first = ["argmax", "argmin", *first]
    if item.set == "hitab":
        how = " ".join(gold["aggregation"])
        front = ["argmax", "argmin", "max", "min"] * ("arg" in how or "max" in how or "min" in how)
        front += ["share", "ratio"] * ("div" in how)
        front += ["difference"] * ("diff" in how) + ["sum"] * ("sum" in how) + ["average"] * ("average" in how)
        first = front + first
    if operation := next((each for each in first if each in right), None):
        return operation
    if item.set == "tatqa" and gold["answer_type"] == "span" and gold["answer_from"] == "text":
        return "span"
    return None


def _gives_own(item: Item, page: Page, candidate: Candidate) -> bool:
    """Return whether a candidate gives the gold of our own question: its number in whole units, or its words."""
    if not item.gold["answerable"]:
        return False
    golds = [each for each in read_numbers(item.gold["answer"]) if each.unit not in ("date", "year", "time")]
    if not golds:
        return has_words("; ".join(candidate.texts), item.gold["answer"])
    amounts = [amount for at in candidate.cells if (amount := page.cells[at].amount)]
    if candidate.number is None:
        values = [amount.printed * amount.factor for amount in amounts] if candidate.operation != "span" else []
        if candidate.operation in ("argmax", "argmin", "labels", "span") or not values:
            return len(golds) == 1 and has_close_number("; ".join(candidate.texts), item.gold["answer"])
        values = values[:1] if candidate.operation in ("value", "max", "min") else values
    elif candidate.operation in (*IN_PERCENT, "count", "ratio"):
        values = [candidate.number]
    else:
        values = [candidate.number * (amounts[0].factor if amounts else 1)]
    near = [
        any(abs(float(value) - float(gold.value)) <= 0.006 * abs(float(gold.value)) for value in values)
        for gold in golds
    ]
    return all(near) and len(values) == len(golds)


def _is_drawn(item: Item, page: Page, candidate: Candidate) -> bool:
    """Return whether a candidate is of the operation and the cells that a drawn question was made of."""
    if candidate.operation != item.gold["operation"] or page.hits[0].document_name != item.document:
        return False
    cells = [page.cells[at].record for at in candidate.cells]
    places = [(cell["table"], cell["row"], cell["col"]) for cell in cells if cell]
    gold = item.gold["cells"]
    return places == gold or (candidate.operation == "sum" and sorted(places) == sorted(gold))


def find_targets(item: Item, page: Page, candidates: Sequence[Candidate]) -> tuple[str | None, list[bool]]:
    """Return the operation of the gold, and for each candidate whether it gives the gold by that operation.

    Where the gold names the numbers that it reasons with, only candidates over these count, if there are any.
    """
    if item.set == "own":
        right = [_gives_own(item, page, candidate) for candidate in candidates]
        operation = _operation_of(
            item, {c.operation for c, is_right in zip(candidates, right, strict=True) if is_right}
        )
        pairs = zip(candidates, right, strict=True)
        return operation, [is_right and candidate.operation == operation for candidate, is_right in pairs]
    if item.set == "drawn":
        return item.gold["operation"], [_is_drawn(item, page, candidate) for candidate in candidates]
    if item.set == "open":
        item = item._replace(set="tatqa")
    right = [_looks_right(item, candidate) for candidate in candidates]
    if named := _named_figures(item):
        over = [
            is_right
            and bool(candidate.cells)
            and all(
                any(abs(abs(float(amount.printed)) - figure) < 1e-9 for figure in named)
                for at in candidate.cells
                if (amount := page.cells[at].amount)
            )
            for is_right, candidate in zip(right, candidates, strict=True)
        ]
        right = over if any(over) else right
    pairs = list(zip(candidates, right, strict=True))
    operation = _operation_of(item, {candidate.operation for candidate, is_right in pairs if is_right})
    if operation == "span" and not any(right):
        # no words are cut out: the sentence that holds the gold is the answer
        gold = _key(item.gold["answer"])[0]
        right = [
            candidate.operation == "span" and bool(gold) and gold in _key(candidate.texts)[0]
            for candidate in candidates
        ]
        pairs = list(zip(candidates, right, strict=True))
    return operation, [is_right and candidate.operation == operation for candidate, is_right in pairs]
