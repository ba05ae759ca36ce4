"""Lists the answers that a page could give: operations over a few cells, each with how these fit together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from itertools import combinations
from math import log10
from typing import Literal, NamedTuple

import numpy as np

from tasks.rag.reading.cell_features import Features, Weigher
from tasks.rag.reading.pages import Amount, Cell, Page, Question, words_in_order, years_of

OPERATIONS = (
    "value", "negated", "list", "labels", "argmax", "argmin", "max", "min", "difference", "growth", "sum", "average",
    "share", "ratio", "product", "count", "yesno", "span", "sum share", "growth difference",
)  # fmt: skip
"""What may be done with cells. Append only: fitted weights know an operation by its place.

No candidate is `negated`, `sum share` or `growth difference`, which gave no right answer more than they cost."""
OF = {name: place for place, name in enumerate(OPERATIONS)}
LINKS = (
    "operands", "same row", "same column", "sentences", "mixed", "same unit", "years are those asked", "years hit",
    "years beyond", "later first", "asked first", "uncovered", "union over best", "same label", "adjacent", "sign",
    "below one", "magnitude", "equal", "whole row", "whole column", "named", "group size", "label in question",
    "noun is stub", "length", "threshold met", "duplicates", "percent asked", "years asked", "one table",
    "percents", "words in span", "words around", "sentence rank", "first is whole", "with question value",
    "years asked span",
)  # fmt: skip
"""How the cells of a candidate fit together. Append only, as above; no candidate has the last two any more."""
LINK = {name: place for place, name in enumerate(LINKS)}
MOST_OPERANDS = 8
BEST_CELLS, BEST_NUMBERS = 24, 12
MOST_POOLED, VERY_BEST = 28, 10
"""Numbers that are put together in pairs, and those of them that need no row or column in common."""
LONG = Context(prec=400)  # a product of two amounts in won may have more than the usual 28 digits
_HUNDRED = Decimal(100)


Scale = Literal["", "thousand", "million", "billion", "percent"]
SCALES: dict[Decimal, Scale] = {Decimal(10) ** 3: "thousand", Decimal(10) ** 6: "million", Decimal(10) ** 9: "billion"}
IN_PERCENT = frozenset(["growth", "share"])
"""Operations whose number is in percent, whatever its cells are."""
PLAIN = frozenset(["count", "ratio", "argmax", "argmin", "labels", "yesno", "span"])
"""Operations whose answer has no unit of its cells."""


class Candidate(NamedTuple):
    """An answer that the page could give."""

    operation: str
    cells: tuple[int, ...]
    """Indices of the page's cells that it is made of."""
    texts: tuple[str, ...] = ()
    """The texts of the answer; empty where it is a number that was worked out."""
    number: Decimal | None = None
    """The number that was worked out, in the scale of its first cell; of `share` and `growth` in percent."""
    links: Mapping[str, float] = {}
    evidence: tuple[int, ...] = ()
    """Cells that show the answer where it is made of none: the labels that are listed or counted."""


def list_candidates(page: Page, question: Question, scores: Features) -> list[Candidate]:
    """Return some hundred candidates of the cells with the best scores, (cells,), and sentences; none without cells."""
    return list(_Lister(page, question, scores).list_all()) if page.cells else []


class _Lister:
    def __init__(self, page: Page, question: Question, scores: Features) -> None:
        self.page, self.question, self.cells = page, question, page.cells
        self.weigher = Weigher(page, question)
        self.whole = self.weigher.whole
        order = np.argsort(-scores, kind="stable").tolist()
        self.order: list[int] = order
        self.numeric = [at for at in order if self.cells[at].amount is not None]
        self.years = frozenset(question.years)
        self._links: dict[tuple[int, ...], dict[str, float]] = {}
        self._asked: dict[int, frozenset[str]] = {}
        # where the words of a row or a year first stand in the question
        self._first: dict[str, int] = {}
        for place, word in enumerate(question.words):
            self._first.setdefault(word if word.isdigit() else next(iter(page.stems.of(word)), word), place)

    def list_all(self) -> Iterator[Candidate]:
        """Yield all candidates: single cells first, then computations over rows, columns, sentences and pairs."""
        yield from self._values()
        yield from self._rows()
        yield from self._columns()
        yield from self._sentences()
        yield from self._pairs()
        yield from self._shares_of_totals()
        yield from self._spans()

    def _values(self) -> Iterator[Candidate]:
        """Yield the best cells as they are written."""
        first_places: dict[str, int] = {}
        for at in self.order[:BEST_CELLS]:
            text = self.cells[at].text
            yield self._make("value", [at], [text], duplicates=first_places.setdefault(text, at) != at)

    def _rows(self) -> Iterator[Candidate]:
        """Yield along a row: its cells as a list, sum and mean, the largest and smallest, and how many pass a limit."""
        page, cells = self.page, self.cells
        for row in list(dict.fromkeys(cells[at].row for at in self.order[:60] if cells[at].column >= 0))[:5]:
            line = [at for at in page.rows[row].cells if cells[at].amount is not None]
            line = _of_one_kind(cells, line)
            if len(line) < 2:
                continue
            values = self._values_of(line)
            by_year = [next((at for at in line if year in cells[at].years), None) for year in self.question.years]
            of_years = [at for at in by_year if at is not None]
            if len(of_years) > 1 and len(of_years) == len(by_year):
                yield self._make("list", of_years, [cells[at].text for at in of_years], **_group(of_years))
            yield self._make("list", line, [cells[at].text for at in line], **{"whole row": 1.0}, **_group(line))
            for size in range(2, min(5, len(line)) + 1) if len(line) <= 6 else [len(line)]:
                for start in range(len(line) - size + 1):
                    part, is_whole = line[start : start + size], size == len(line)
                    if size > 2 or is_whole:
                        links = {"whole row": float(is_whole), **_group(part)}
                        total = sum(values[start : start + size], Decimal(0))
                        yield self._make("sum", part, (), total, **links)
                        yield self._make("average", part, (), total / size, **links)
            asked = [
                place
                for place, at in enumerate(line)
                if any(
                    head and frozenset(page.stems.of(head)) <= self.question.bag and page.stems.of(head)
                    for head in page.columns[cells[at].column].heads
                )
            ]
            if 2 <= len(asked) <= 4:
                part = [line[place] for place in asked]
                yield self._make("list", part, [cells[at].text for at in part], named=1.0, **_group(part))
            parts = [list(range(len(line))), asked] if 2 <= len(asked) < len(line) else [list(range(len(line)))]
            for part in parts:
                links = {
                    "whole row": float(len(part) == len(line)),
                    "named": float(len(part) < len(line)),
                    "group size": len(part) / 5,
                }
                for sign, arg, top in ((1, "argmax", "max"), (-1, "argmin", "min")):
                    best = max(part, key=lambda place: sign * values[place])
                    column = page.columns[cells[line[best]].column]
                    period = sorted(cells[line[best]].years)[:1]
                    heads = dict.fromkeys([" ".join(column.heads), *column.heads, *map(str, period)])
                    for depth, head in enumerate(filter(None, heads)):
                        stems = frozenset(page.stems.of(head))
                        yield self._make(
                            arg, [line[best]], [head], **links,
                            length=depth / 3,
                            **{
                                "label in question": float(bool(stems) and stems <= self.question.bag),
                                "noun is stub": float(head.isdigit() and "year" in self.question.words),
                            },
                        )  # fmt: skip
                    yield self._make(top, [line[best]], [cells[line[best]].text], **links)
            yield from self._counts(line, values, {"whole row": 1.0, **_group(line)})
        for table in range(min(2, len(page.tables))):
            columns = [column for column in page.columns if column.table == table and column.number and column.heads]
            heads = list(dict.fromkeys(" ".join(column.heads) for column in columns))
            years = list(dict.fromkeys(str(year) for head in heads for year in sorted(years_of(head))))
            first = [at for at in self.numeric if cells[at].column >= 0 and page.rows[cells[at].row].table == table][:1]
            for texts in (years, heads):
                if 1 < len(texts) <= 12:
                    links = {"whole row": 1.0, "group size": len(texts) / 5}
                    yield self._make("labels", first, texts, **links)
                    yield self._make("count", first, (), Decimal(len(texts)), **links)

    def _columns(self) -> Iterator[Candidate]:
        """Yield computations down a column: over all rows, over one section, over rows that the question names."""
        page, cells = self.page, self.cells
        places = [at for at in self.order[:80] if cells[at].column >= 0 and not cells[at].is_label]
        columns = list(dict.fromkeys(cells[at].column for at in places))[:4]
        if not columns:
            return
        bag = self.question.bag
        for table in list(dict.fromkeys(page.columns[column].table for column in columns))[:2]:
            rows = [at for at, row in enumerate(page.rows) if row.table == table]
            groups: dict[object, list[int]] = {None: rows}
            for at in rows:
                for head in page.rows[at].path[:-1]:
                    groups.setdefault(head, []).append(at)
            names = {at: frozenset(page.stems.of(page.rows[at].name)) for at in rows}
            named_rows = [at for at in rows if names[at] and len(names[at] & bag) / len(names[at]) > 0.6]
            if 2 <= len(named_rows) <= 6:
                groups["named", 0] = named_rows
            if "or" in self.question.words or "또는" in self.question.text:  # A or B
                fit = sorted(rows, key=lambda at: -len(names[at] & bag) / max(1, len(names[at])))[:2]
                groups["or", 0] = sorted(fit)
            asked, alike = f" {' '.join(self.question.words)} ", dict[object, list[int]]()
            for at in rows:  # rows that share a cell which the question says
                for place in page.rows[at].cells:
                    cell = cells[place]
                    words = words_in_order(cell.text)
                    if cell.amount is None and not cell.is_label and words and f" {' '.join(words)} " in asked:
                        alike.setdefault((cell.column, cell.text), []).append(at)
            groups |= {key: part for key, part in list(alike.items())[:3] if 2 <= len(part) < len(rows)}

            def rank(key: object) -> float:
                if isinstance(key, tuple):
                    return 9.0
                return 8.0 if key is None else float(len(frozenset(page.stems.of(str(key))) & bag))

            stub = frozenset(
                stem
                for column in page.columns
                if column.table == table and not column.number
                for head in column.heads
                for stem in page.stems.of(head)
            )
            texts_of = [
                column
                for column in page.columns
                if column.table == table
                and self.question.noun
                and any(self.question.noun in page.stems.of(head) for head in column.heads)
            ][:2]
            for key in sorted(groups, key=rank, reverse=True)[:5]:
                group = groups[key]
                head = frozenset(page.stems.of(key)) if isinstance(key, str) else frozenset[str]()
                links = {
                    "whole column": float(key is None),
                    "named": float(isinstance(key, tuple)),
                    "label in question": len(head & bag) / max(1, len(head)),
                    "group size": len(group) / 10,
                    "noun is stub": float(bool(self.question.noun) and self.question.noun in stub),
                }
                labels = [at for at in group if page.rows[at].name]
                plain = [at for at in labels if not _is_total(page.rows[at].name)]
                for part in dict.fromkeys([tuple(labels), tuple(plain)]):
                    texts = [page.rows[at].name for at in part]
                    label_cells = tuple(page.rows[at].cells[0] for at in part)
                    length = len(texts) / 10
                    if 2 <= len(texts) <= 12:
                        yield self._make("labels", [], texts, length=length, **links)._replace(evidence=label_cells)
                    if texts:
                        count = self._make("count", [], (), Decimal(len(texts)), length=length, **links)
                        yield count._replace(evidence=label_cells)
                for column in columns:
                    if page.columns[column].table == table:
                        yield from self._of_column(column, group, links, texts_of)

    def _of_column(
        self, column: int, group: Sequence[int], links: Mapping[str, float], texts_of: Sequence[object]
    ) -> Iterator[Candidate]:
        """Yield extremes, list, sum, average and counts of a column's amounts in some rows, with and without totals."""
        page, cells = self.page, self.cells
        inside = set(group)
        number, table = page.columns[column].number, page.columns[column].table
        column_cells = [
            at
            for other in page.columns
            if other.table == table and other.number == number
            for at in other.cells
            if cells[at].row in inside and cells[at].amount is not None
        ]
        column_cells = _of_one_kind(cells, column_cells)
        bare = [at for at in column_cells if not _is_total(page.rows[cells[at].row].name)]
        for part in [column_cells, bare] if 0 < len(bare) < len(column_cells) else [column_cells]:
            if len(part) < 2:
                continue
            values, share = self._values_of(part), len(part) / len(column_cells)
            for sign, arg, top in ((1, "argmax", "max"), (-1, "argmin", "min")):
                best = max(range(len(part)), key=lambda place: sign * values[place])
                row = page.rows[cells[part[best]].row]
                other_texts = [
                    cells[at].text
                    for at in row.cells
                    if any(cells[at].column >= 0 and page.columns[cells[at].column] is column for column in texts_of)
                ]
                for text in filter(None, dict.fromkeys([row.name, *other_texts])):
                    yield self._make(arg, [part[best]], [text], **links, length=share, adjacent=text != row.name)
                yield self._make(top, [part[best]], [cells[part[best]].text], **links, length=share)
            if links["named"] and len(part) <= 4:
                yield self._make("list", part, [cells[at].text for at in part], **links)
            if len(part) <= MOST_OPERANDS:
                yield self._make("sum", part, (), sum(values, Decimal(0)), **links)
                yield self._make("average", part, (), sum(values, Decimal(0)) / len(values), **links)
            yield from self._counts(part, values, links)

    def _counts(
        self, part: Sequence[int], values: Sequence[Decimal], links: Mapping[str, float]
    ) -> Iterator[Candidate]:
        """Yield how many values are above, and how many below, each of the first two amounts in the question."""
        for limit in (amount.printed for amount in self.question.amounts[:2]):
            for sign in (1, -1):
                count = sum(sign * value > sign * limit for value in values)
                yield self._make("count", part[:1], (), Decimal(count), **{**links, "threshold met": float(sign)})

    def _sentences(self) -> Iterator[Candidate]:
        """Yield values of a sentence as a list: in order of the periods asked, or its first two or three."""
        cells = self.cells
        for sentence in list(dict.fromkeys(cells[at].row for at in self.order[:60] if cells[at].column < 0))[:3]:
            line = [at for at, cell in enumerate(cells) if cell.column < 0 and cell.row == sentence]
            by_year = [next((at for at in line if year in cells[at].years), None) for year in self.question.years]
            of_years = [at for at in by_year if at is not None]
            lists = [of_years] if len(of_years) > 1 and len(of_years) == len(by_year) else []
            for part in [*lists, line[:2], line[:3]]:
                if len(part) > 1:
                    links = {**_group(part), "whole row": float(len(part) == len(line))}
                    yield self._make("list", part, [cells[at].text for at in part], **links)

    def _pairs(self) -> Iterator[Candidate]:
        """Yield computations over two values: of one row, of one column, of sentences, or among the very best."""
        page, cells, numeric = self.page, self.cells, self.numeric
        rows = list(dict.fromkeys(cells[at].row for at in numeric[:40] if cells[at].column >= 0))[:3]
        pool = list(numeric[:BEST_NUMBERS])
        for row in rows:
            pool += [at for at in numeric if cells[at].row == row and cells[at].column >= 0][:6]
        pool += [at for at in numeric[:60] if cells[at].column < 0][:6]
        best = set(numeric[:VERY_BEST])
        for a, b in combinations(list(dict.fromkeys(pool))[:MOST_POOLED], 2):
            x, y = cells[a], cells[b]
            in_row = x.row == y.row and (x.column < 0) == (y.column < 0)
            in_column = x.column >= 0 and y.column >= 0 and (
                page.columns[x.column][:2] == page.columns[y.column][:2]
            )  # fmt: skip
            if not (in_row or in_column or (a in best and b in best)):
                continue
            u, v = self._values_of([a, b])
            of_years = "ratio" in self.question.words and bool(x.years and y.years) and x.years != y.years
            percent = "%" in (_unit(x), _unit(y))
            yield self._make("product", [a, b], (), u * v / _HUNDRED if percent else u * v)
            if _clash(x.amount, y.amount):
                continue
            yield self._make("sum", [a, b], (), u + v)
            yield self._make("average", [a, b], (), (u + v) / 2)
            for first, second, m, k in ((a, b, u, v), (b, a, v, u)):
                yield self._make("difference", [first, second], (), m - k)
                yield self._make("yesno", [first, second], ["yes" if m > k else "no"])
                if k:
                    yield self._make("growth", [first, second], (), (m - k) / k * _HUNDRED)
                    if of_years and self._first_place(cells[first]) > self._first_place(cells[second]):
                        continue  # the ratio of 2017 to 2018 has 2017 above
                    yield self._make("share", [first, second], (), m / k * _HUNDRED)
                    yield self._make("ratio", [first, second], (), m / k)

    def _shares_of_totals(self) -> Iterator[Candidate]:
        """Yield each of the best values as a share of the total of its column or its row."""
        page, cells = self.page, self.cells
        for at in [at for at in self.numeric[:12] if cells[at].column >= 0][:6]:
            cell = cells[at]
            column, row = page.columns[cell.column], page.rows[cell.row]
            below = [
                other
                for each in page.columns
                if each[:2] == column[:2]
                for other in each.cells
                if _is_total(page.rows[cells[other].row].name)
            ]
            row_totals = [other for other in row.cells if any(map(_is_total, page.columns[cells[other].column].heads))]
            for whole in dict.fromkeys([*below[:3], *row_totals[:2]]):
                if whole != at and cells[whole].amount and not _clash(cell.amount, cells[whole].amount):
                    value, total = self._values_of([at, whole])
                    if total:
                        links = {"first is whole": 1.0}
                        yield self._make("share", [at, whole], (), value / total * _HUNDRED, **links)

    def _spans(self) -> Iterator[Candidate]:
        """Yield the three sentences that hold most of the question, whole: without a model no words are cut out."""
        page, bag = self.page, self.question.bag
        scored: list[tuple[float, int]] = []
        for at, sentence in enumerate(page.sentences):
            words = frozenset(page.stems.of(sentence.text))
            cover = self.weigher.cover(words, self.whole)
            scored.append((cover + 0.3 * self.weigher.measure_fit(words), at))
        for rank, (_, at) in enumerate(sorted(scored, key=lambda pair: (-pair[0], pair[1]))[:3]):
            words = frozenset(page.stems.of(page.sentences[at].text))
            links = {
                "words in span": self.weigher.cover(words, self.whole),
                "words around": self.weigher.measure_fit(words),
                "sentence rank": rank / 3,
                "uncovered": self.weigher.weigh(bag - words) / self.whole,
                "percent asked": float(self.question.percent),
                "years asked": min(3, len(self.years)) / 3,
                "length": min(len(words), 60) / 60,
            }
            yield Candidate("span", (), (page.sentences[at].text,), None, links)

    def _values_of(self, cells: Sequence[int]) -> list[Decimal]:
        """Return the printed values of cells, in the scale of the first of them."""
        amounts = [amount for at in cells if (amount := self.cells[at].amount)]
        factor = amounts[0].factor
        return [each.printed if each.factor == factor else each.printed * each.factor / factor for each in amounts]

    def _make(
        self,
        operation: str,
        cells: Sequence[int],
        texts: Sequence[str] = (),
        number: Decimal | None = None,
        /,
        **links: float,
    ) -> Candidate:
        """Return a candidate of the first MOST_OPERANDS cells with features of them, of its number, and `links`."""
        operands = tuple(cells[:MOST_OPERANDS])
        if operands not in self._links:
            self._links[operands] = self._link(operands)
        more = dict(links)
        if number is not None:
            size = abs(float(number))
            more |= {
                "sign": float((number > 0) - (number < 0)),
                "below one": float(size <= 1),
                "magnitude": min(6.0, log10(size + 1e-3)) / 6,
            }
        return Candidate(operation, operands, tuple(texts), number, self._links[operands] | more)

    def _link(self, operands: tuple[int, ...]) -> dict[str, float]:
        """Return how cells fit together, whatever is done with them."""
        cells = [self.cells[at] for at in operands]
        in_table = [cell.column >= 0 for cell in cells]
        for at in operands:
            self._asked.setdefault(at, self.question.bag & self.cells[at].words)
        asked = [self._asked[at] for at in operands]
        uncovered = 1 - self.weigher.weigh(frozenset[str]().union(*asked)) / self.whole
        years = frozenset[int]().union(*(cell.years for cell in cells))
        links = {
            "operands": float(len(operands)),
            "uncovered": uncovered,
            "years hit": len(years & self.years) / max(1, len(self.years)),
            "years beyond": len(years - self.years) * bool(self.years) / 3,
            "years are those asked": float(bool(self.years) and years == self.years),
            "sentences": float(not any(in_table)),
            "mixed": float(len(set(in_table)) > 1),
            "percent asked": float(self.question.percent),
            "years asked": min(3, len(self.years)) / 3,
            "percents": float(any(_unit(cell) == "%" for cell in cells)),
        }
        if len(cells) > 1:
            links["same row"] = float(len({(cell.row, cell.column < 0) for cell in cells}) == 1)
            columns = {self.page.columns[cell.column][:2] for cell in cells if cell.column >= 0}
            links["same column"] = float(len(columns) == 1 and all(in_table))
            links["same unit"] = float(len({(_unit(cell), cell.amount and cell.amount.factor) for cell in cells}) == 1)
            tables = {self.page.rows[cell.row].table if cell.column >= 0 else -1 for cell in cells}
            links["one table"] = float(len(tables) == 1)
            best = max(self.weigher.weigh(words) for words in asked) / self.whole
            links["union over best"] = 1 - best - uncovered
        if len(cells) == 2:
            x, y = cells
            late, early = max(x.years, default=0), max(y.years, default=0)
            at_x, at_y = self._first_place(x), self._first_place(y)
            names = [self.page.rows[cell.row].name if cell.column >= 0 else "" for cell in cells]
            near = [self.page.columns[cell.column].number if cell.column >= 0 else -9 for cell in cells]
            rows = [self.page.rows[cell.row].number if cell.column >= 0 else cell.row for cell in cells]
            links |= {
                "later first": float((late > early) - (late < early)),
                "asked first": float((at_x < at_y) - (at_x > at_y)),
                "adjacent": float(abs(near[0] - near[1]) + abs(rows[0] - rows[1]) == 1),
                "same label": float(all(in_table) and names[0] == names[1] and x.row != y.row),
                "equal": float(bool(x.amount and y.amount and x.amount.printed == y.amount.printed)),
            }
        return links

    def _first_place(self, cell: Cell) -> int:
        years = [self._first[str(year)] for year in cell.years if str(year) in self._first]
        words = [self._first[word] for word in cell.near if word in self._first]
        return min(years or words or [99])


def _unit(cell: Cell) -> str:
    return cell.amount.unit if cell.amount else ""


def _clash(first: Amount | None, second: Amount | None) -> bool:
    """Return whether two amounts are of two currencies, or only one of them is a percentage: they do not add up."""
    units = {amount.unit for amount in (first, second) if amount and amount.unit}
    return len(units) > 1 and ("%" in units or all(len(unit) == 3 and unit.isupper() for unit in units))


def _of_one_kind(cells: Sequence[Cell], places: Sequence[int]) -> list[int]:
    """Return the places whose amounts are percentages, or those whose amounts are none: the kind of most."""
    percents = [at for at in places if _unit(cells[at]) == "%"]
    other_texts = [at for at in places if _unit(cells[at]) != "%"]
    return percents if len(percents) > len(other_texts) else other_texts


def _group(part: Sequence[int]) -> dict[str, float]:
    return {"group size": len(part) / 5}


def _is_total(label: str) -> bool:
    return "total" in label.lower() or label.endswith("계")


def scale_of(page: Page, candidate: Candidate) -> Scale:
    """Return the scale word of a candidate's answer: percent, that of its first number, or none."""
    if candidate.operation in IN_PERCENT:
        return "percent"
    if candidate.operation in PLAIN:
        return ""
    amounts = [amount for at in candidate.cells if (amount := page.cells[at].amount)]
    if not amounts:
        return ""
    if candidate.number is None and any(page.cells[at].column < 0 for at in candidate.cells) and amounts[0].unit != "%":
        return ""  # the texts of sentences hold their scale: $1.1 million
    if all(amount.unit == "%" for amount in amounts):
        return "percent"
    return SCALES.get(amounts[0].factor, "")


def short_texts(candidate: Candidate) -> tuple[str, ...]:
    """Return the values of an answer as a person would write them into a form."""
    if candidate.number is None:
        return candidate.texts
    return (write_number(candidate.number),)


def write_number(number: Decimal, places: int = 4) -> str:
    """Return a number with at most so many decimals, and at least three significant digits: 1234.5, -0.00123."""
    if number and abs(number) < 1:
        places = max(places, 2 - number.adjusted())
    text = f"{number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN, LONG):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


class Packed(NamedTuple):
    """Candidates as arrays: operations (candidates,), cells (candidates, MOST_OPERANDS; -1: none), links (…, LINKS)."""

    operations: np.ndarray
    cells: np.ndarray
    links: np.ndarray


def pack(candidates: Sequence[Candidate]) -> Packed:
    """Return candidates as arrays: operation (N,), cells (N, MOST_OPERANDS), -1 for none, and links (N, LINKS)."""
    operations = np.array([OF[candidate.operation] for candidate in candidates], np.int32)
    cells = np.full((len(candidates), MOST_OPERANDS), -1, np.int32)
    links = np.zeros((len(candidates), len(LINKS)), np.float32)
    for place, candidate in enumerate(candidates):
        cells[place, : len(candidate.cells)] = candidate.cells
        for name, value in candidate.links.items():
            links[place, LINK[name]] = value
    return Packed(operations, cells, links)
