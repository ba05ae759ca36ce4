"""Names of lines and ratios: the data file is sound, and labels and questions name what a reader would say they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tasks.rag.numbers.concepts import HANGUL, concepts, label_of, mentions, score_label, words_of
from tasks.rag.numbers.expressions import lines_of, parse

FORMULAS = {key: concept.formula for key, concept in concepts().items() if concept.formula}
UNITS = {"", "%", "times", "days", "currency", "per share"}


def reached(key: str) -> Iterator[str]:
    """Every concept that a concept is worked out from."""
    seen: set[str] = set()
    waiting = [key]
    while waiting:
        formula = FORMULAS.get(waiting.pop())
        for line in lines_of(parse(formula)) if formula else ():
            if line.concept and line.concept.key not in seen:
                seen.add(line.concept.key)
                waiting.append(line.concept.key)
                yield line.concept.key


def test_no_name_stands_under_two_concepts() -> None:
    spelled = Counter(
        name.replace(" ", "").lower() if HANGUL.search(name) else " ".join(words_of(name))
        for concept in concepts().values()
        for name in concept.names
    )
    assert [name for name, count in spelled.items() if count > 1] == []


@pytest.mark.parametrize("key", FORMULAS)
def test_a_formula_is_of_known_lines(key: str) -> None:
    assert [line.name for line in lines_of(parse(FORMULAS[key])) if line.concept is None] == []


def test_no_formula_leads_back_to_itself() -> None:
    assert [key for key in FORMULAS if key in set(reached(key))] == []


def test_what_is_no_line_has_a_formula_and_each_concept_a_name_and_a_known_unit() -> None:
    everything = concepts().values()
    assert [one.key for one in everything if not one.statement and not one.formula] == []
    assert [one.key for one in everything if not one.names or one.unit not in UNITS] == []


def test_words_are_without_case_plural_and_small_words() -> None:
    assert words_of("Cost of Revenues, SG&A") == ("cost", "revenue", "sga")
    assert words_of("Marlow’s inventories & losses on taxes") == ("marlow", "inventory", "loss", "tax")
    assert words_of("class basis surplus") == ("class", "basis", "surplus")


def test_a_bare_total_is_that_of_its_heading() -> None:
    paths = [("ASSETS", "Goodwill"), ("Inventories", "Total"), ("Total",), ()]
    assert [label_of(path) for path in paths] == ["Goodwill", "Inventories Total", "Total", ""]


NAMES = """
revenue: Net sales; Ⅰ. 매출액
cost_of_sales: Costs of goods sold (exclusive of depreciation)
accounts_receivable: Accounts receivable, net of allowance of $12 and $9
inventory: Inventories; 재고자산 합계
operating_income: 5. 영업이익(손실)
net_income: Net income (loss)
"""
OTHERS = """
revenue: Deferred revenue; Cost of sales; 매출원가
total_assets: Total current assets
net_income: Net income per share
inventory: Increase in inventories
accounts_payable: Income taxes payable
advertising_expense: Publishing and advertising; Advertising revenue
"""


@pytest.mark.parametrize(("table", "names"), [(NAMES, True), (OTHERS, False)], ids=["its own", "another's"])
def test_labels_of_a_line_and_of_others(table: str, names: bool) -> None:
    for key, labels in (line.split(": ") for line in table.strip().split("\n")):
        fitting = {label: score_label(concepts()[key], label) for label in labels.split("; ")}
        assert {label: score >= 0.9 if names else score == 0 for label, score in fitting.items()} == dict.fromkeys(
            fitting, True
        )


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("the inventory turnover of Marlow Mills", ["inventory_turnover"]),
        ("gross profit margin and gross profit", ["gross_margin", "gross_profit"]),
        ("total current assets less inventories", ["current_assets", "inventory"]),
        ("말로우의 매출액은 얼마이고 영업이익률은", ["revenue", "operating_margin"]),
        ("2021년 매출 원가를", ["cost_of_sales"]),
        ("매출채권회전율", ["receivables_turnover"]),
        ("the weaver's loom", []),
    ],
)
def test_a_text_names_the_longest_of_names_that_overlap(text: str, keys: list[str]) -> None:
    assert [one.concept.key for one in mentions(text)] == keys
