"""Several definitions in one question, and those of an input of what is asked for."""

from __future__ import annotations

import pytest

from tasks.rag.numbers.computation_reading import read_computation
from tasks.rag.numbers.written_formulas import definitions
from tests.rag.numbers.test_expressions import told

ASKED = """
FY2019 CCC? CCC = DIO - DPO, where DIO = 9 x inventory / COGS and DPO = 9 x payables / COGS, all year-end. | \
(((9 * inventory) / cost_of_sales) - ((9 * accounts_payable) / cost_of_sales))
FY2019 free cash flow margin, where free cash flow = operating cash flow minus dividends paid? | \
((operating_cash_flow - dividends_paid) / revenue)
"""


@pytest.mark.parametrize("case", ASKED.strip().split("\n"))
def test_definitions_of_inputs_go_into_what_is_asked_for(case: str) -> None:
    question, formula = (part.strip() for part in case.split("|"))
    found = read_computation(question)
    assert found
    assert [told(task.expression) for task in found.tasks] == [formula]


def test_a_formula_ends_where_words_begin_that_are_none() -> None:
    (found,) = definitions("Loom ratio = inventory / goodwill, with both at their year-end values.")
    assert (found.name, told(found.expression)) == ("Loom ratio", "(inventory / goodwill)")
