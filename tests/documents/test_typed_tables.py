"""Tables typed in letters of one width, as a page shows them, and how they are read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pymupdf as untyped_pymupdf
import pytest

from tasks.documents.document_readers import ReadOptions
from tasks.documents.pdf.pdf_reader import open_pdf

pymupdf: Any = untyped_pymupdf  # its annotations know few of its names

SIZE, HIGH, WIDE = 9, 11.5, 5.4
"""Font size, height of a line and width of a letter, in points."""

KINDS = {
    "names of several lines are one cell": (
        """
                   Number of    Median
        State      households   income
        Alabama       1,737     34,135
        Alaska          222     51,571
        Arizona       1,901     40,558
        """,
        "State | Number of households | Median income\nAlabama | 1,737 | 34,135\nAlaska | 222 | 51,571\n"
        "Arizona | 1,901 | 40,558",
    ),
    "a title stands over its columns": (
        """
                        Male               Female
                   -----------------   -----------------
        Region      Urban    Rural      Urban    Rural
        North         101      202        303      404
        South         111      222        333      444
        West          121      242        363      484
        """,
        "Region | Male | Female\n | Urban | Rural | Urban | Rural\nNorth | 101 | 202 | 303 | 404\n"
        "South | 111 | 222 | 333 | 444\nWest | 121 | 242 | 363 | 484",
    ),
    "a wrapped label stays with its row": (
        """
                                   2004      2005
        Wheat                     1,200     1,300
        Barley and the
          other grains            2,200     2,300
        Roads:
          Urban                   3,200     3,300
          Rural                   4,200     4,300
        """,
        " | 2004 | 2005\nWheat | 1,200 | 1,300\nBarley and the other grains | 2,200 | 2,300\nRoads: | | \n"
        "Urban | 3,200 | 3,300\nRural | 4,200 | 4,300",
    ),
    "columns that some rows leave empty, where their label runs on": (
        """
        4.75% Notes      February 2010   4.92%       900       750
        1.70% Notes      February 2020   1.92%       500       400
        2.15% Notes      October 2021    2.26%       850       800
        Total debt outstanding, at par             2,250     1,950
        """,
        "4.75% Notes | February 2010 | 4.92% | 900 | 750\n1.70% Notes | February 2020 | 1.92% | 500 | 400\n"
        "2.15% Notes | October 2021 | 2.26% | 850 | 800\nTotal debt outstanding, at par | | 2,250 | 1,950",
    ),
    "a title wraps behind its number": (
        """
        4.4    Form of the notes that are due   8-K    1/26/15     4.1
               in 2025, with a certificate

        10.1   Stock purchase plan, amended     10-K   4/13/18    10.2
               in the year before

        10.2   Retention agreement with the     8-K    10/7/04    99.4
               chief executive officer
        """,
        "4.4 | Form of the notes that are due in 2025, with a certificate | 8-K | 1/26/15 | 4.1\n"
        "10.1 | Stock purchase plan, amended in the year before | 10-K | 4/13/18 | 10.2\n"
        "10.2 | Retention agreement with the chief executive officer | 8-K | 10/7/04 | 99.4",
    ),
    "dots lead to the one amount of a row": (
        """
        Total.............. 68,226
        Rural.............. 12,039
        Urban..............  9,555
        Other.............. 46,632
        """,
        "Total | 68,226\nRural | 12,039\nUrban | 9,555\nOther | 46,632",
    ),
    "a text beside a table is not in it": (
        """
        Export      20.5     1.1     The survey covers all places that filed
        Schools     80.9    10.8     a return in the year before, and whose
        Region      74.6    67.8     main activity lies in the region. Older
        Wages       50.1    48.4     figures were revised where returns came
        Income      74.8     2.6     in late, and totals hold estimates.
        """,
        "Export | 20.5 | 1.1\nSchools | 80.9 | 10.8\nRegion | 74.6 | 67.8\nWages | 50.1 | 48.4\nIncome | 74.8 | 2.6",
    ),
    "a sign stands with its amount": (
        """
                      November 27,   November 28,
                              2015           2014
        Cash         $       876.6  $     1,117.4
        Used             (1,200.7)        (507.3)
        Capital      $     2,608.3  $     2,107.9
        """,
        " | November 27, 2015 | November 28, 2014\nCash | $ 876.6 | $ 1,117.4\nUsed | (1,200.7) | (507.3)\n"
        "Capital | $ 2,608.3 | $ 2,107.9",
    ),
    "rows of words are apart by white": (
        """
        Item         Use               Place

        Pump         Lifts water       North hall
                     to the tank

        Valve        Closes the        Cellar
        of brass     main

        Meter        Counts            Yard
        """,
        "Item | Use | Place\nPump | Lifts water to the tank | North hall\nValve of brass | Closes the main | Cellar\n"
        "Meter | Counts | Yard",
    ),
    "a form has no header": (
        """
        ----------------------------------------------
        Aircraft Make               Cessna
        Year of Manufacture         1979
        Airworthiness Certificate   Normal
        Runway Used                 25
        Runway Surface              Dry asphalt
        ----------------------------------------------
        """,
        "Aircraft Make | Cessna\nYear of Manufacture | 1979\nAirworthiness Certificate | Normal\nRunway Used | 25\n"
        "Runway Surface | Dry asphalt",
    ),
}


def read_typed(picture: str, file: Path) -> list[Any]:
    """Tables of a page on which the picture is typed; a run of hyphens is a line."""
    page = pymupdf.open().new_page(width=595, height=842)
    for row, line in enumerate(picture.splitlines()):
        for piece in re.finditer(r"\S+(?: \S+)*", line):
            x, y = 50 + WIDE * piece.start(), 100 + HIGH * row
            if set(piece[0]) == {"-"}:
                page.draw_line((x, y - 3), (50 + WIDE * piece.end(), y - 3))
            else:
                page.insert_text((x, y), piece[0], fontname="cour", fontsize=SIZE)
    page.parent.save(file)
    (read,) = open_pdf(file, password=None, options=ReadOptions(ocr="off")).pages()
    return [block for block in read.blocks if block.kind == "table"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_typed_table_reads_as_it_looks(tmp_path: Path, kind: str) -> None:
    picture, text = KINDS[kind]
    (table,) = read_typed(picture, tmp_path / "a.pdf")
    assert [re.sub(" +", " ", line).rstrip(" |") for line in table.text.splitlines()] == [
        line.rstrip(" |") for line in text.splitlines()
    ]
    assert any(cell.header for cell in table.cells) == (table.cells[0].text in ("", "State", "Region", "Item"))
