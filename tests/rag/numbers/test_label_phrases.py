"""What the tables of an invented mill call its lines and its parts."""

from __future__ import annotations

import pytest

from tasks.rag.numbers.computation_reading import read_computation
from tasks.rag.numbers.label_phrases import Phrases, phrases_of, said_in
from tasks.rag.numbers.working_out import work_out
from tests.rag.numbers.test_expressions import told
from tests.rag.numbers.test_working_out import A, lines, rows

INCOME = {"Net sales": (1_200, 1_000), "Yarn and dye expense": (300, 240), "Mill upkeep expense": (90, 80)}
FLOWS = {
    "Purchases of short-term investments": (-70, -40),
    "Repayments of long-term debt": (-55, -20),
    "Proceeds from issuance of long-term debt": (80, 10),
}
PARTS = {"Felt and Wool": (500, 400)}
MILL = [
    *rows("income", INCOME),
    *rows("balance", {"Short-term investments": (33, 30), "Long-term debt": (210, 150)}, table=1),
    *rows("cash_flow", FLOWS, table=2),
    *rows("other", PARTS, table=3),
]
STATEMENTS = frozenset((A, table) for table in range(3))


def called() -> Phrases:
    return phrases_of(MILL, STATEMENTS)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("yarn and dye expense of 2019", [("yarn and dye expense", True), ("yarn and dye", True)]),
        ("sales of Felt and Wool", [("Felt and Wool", False)]),
        ("felt sales", []),
        ("dye and yarn", []),
    ],
    ids=["a line", "a part", "a word of it", "another order"],
)
def test_a_phrase_is_found_as_it_is_written(text: str, found: list[tuple[str, bool]]) -> None:
    said = said_in(text, called())
    assert sorted((text[one.start : one.end], one.concept is not None) for one in said) == sorted(found)


READ = """
How much did the mill spend on yarn and dye in FY2019? | label: yarn and dye expense | 300
What was mill upkeep expense in FY2018? | label: mill upkeep expense | 80
Yarn and dye expense as a percentage of net sales in FY2019? | (label: yarn and dye expense / revenue) | 25.00%
What did the mill pay for short-term investments that it bought in FY2019? | purchases_of_investments | 70
How much long-term debt was repaid in FY2019? | repayments_of_debt | 55
How much long-term debt did it borrow in FY2018? | proceeds_from_debt | 10
What was long-term debt at the end of FY2019? | long_term_debt | 210
By what percentage did net sales swell up in FY2019? | ((revenue@2019 / revenue@2018) - 1) | 20.00%
"""


@pytest.mark.parametrize("case", READ.strip().split("\n"))
def test_a_line_is_what_its_document_calls_it(case: str) -> None:
    question, formula, value = (part.strip() for part in case.split("|"))
    found = read_computation(question, phrases=called)
    assert found
    answer = work_out(found, lines(MILL), documents=["Marlow Mills"], statements=lines(MILL)).text
    assert [told(task.expression) for task in found.tasks] == [formula]
    assert value in answer


def test_a_movement_that_no_table_shows_is_not_the_balance() -> None:
    only = phrases_of(rows("balance", {"Long-term debt": (210, 150)}), {(A, 0)})
    assert read_computation("How much long-term debt was repaid in FY2019?", phrases=lambda: only) is None
