"""Formulas as people write them, told again with every bracket."""

from __future__ import annotations

import pytest

from tasks.rag.numbers import expressions as tree
from tasks.rag.numbers.expressions import NoExpression, find_concept, find_years, parse


def told(expression: tree.Expression) -> str:
    match expression:
        case tree.Constant(value, _):
            return f"{value}"
        case tree.Line(said, concept, year):
            return f"{concept.key if concept else f'«{said}»'}{f'@{year}' if year else ''}"
        case tree.Operation(sign, left, right):
            return f"({told(left)} {sign} {told(right)})"
        case tree.Over(aggregate, operand, years):
            return f"{aggregate}[{told(operand)}{''.join(f' {year}' for year in years)}]"


READ = """
net income divided by revenue | (net_income / revenue)
revenue - cost of sales - R&D | ((revenue - cost_of_sales) - research_and_development)
revenue − (cost of sales − R&D) | (revenue - (cost_of_sales - research_and_development))
goodwill + inventory × 2 | (goodwill + (inventory * 2))
[current assets less inventory] ÷ current liabilities | ((current_assets - inventory) / current_liabilities)
average of (inventory + goodwill) | average[(inventory + goodwill)]
net income (loss) / total assets in FY2018 | (net_income / total_assets@2018)
previous year's revenue | previous[revenue]
1,000.5 * loom rental income from wool | (1000.5 * «loom rental income from wool»)
매출원가 나누기 평균 재고자산 | (cost_of_sales / average[inventory])
2020년 영업이익 ÷ 2020년 매출액 | (operating_income@2020 / revenue@2020)
cost_of_sales / average(inventory) | (cost_of_sales / average[inventory])
"""


@pytest.mark.parametrize("case", READ.strip().split("\n"))
def test_a_formula_is_read_as_a_tree(case: str) -> None:
    text, read = case.split(" | ")
    assert told(parse(text)) == read


def test_a_long_formula_with_years() -> None:
    days = "365 * (average accounts payable between FY2016 and FY2017)"
    bought = "(FY2017 COGS + change in inventory between FY2016 and FY2017)"
    read = "((365 * average[accounts_payable 2016 2017]) / (cost_of_sales@2017 + change[inventory 2016 2017]))"
    assert told(parse(f"{days} / {bought}")) == read


NO_FORMULA = ["", "revenue plus", "* revenue", "(revenue", "revenue)", "average(revenue", "FY2019"]


@pytest.mark.parametrize("text", [*NO_FORMULA, "revenue in FY2018 and FY2019", f"{'(' * 12}revenue{')' * 12}"])
def test_what_is_no_formula_is_refused(text: str) -> None:
    with pytest.raises(NoExpression):
        parse(text)


def test_the_years_of_a_text() -> None:
    assert find_years("FY2016 to FY2019, before that 2012") == (2012, 2016, 2017, 2018, 2019)
    assert find_years("2021년부터 2023년까지") == (2021, 2022, 2023)
    assert find_years("in 2016, 2017 and (2018).") == (2016, 2017, 2018)
    assert find_years("no year, but $2,015 and 120190 and 1,2016") == ()


def test_words_name_a_line_as_a_whole_or_none() -> None:
    keys = [
        one and one.key for one in map(find_concept, ("the company's net sales", "gross_margin", "domestic revenue"))
    ]
    assert keys == ["revenue", "gross_margin", None]
