"""Texts with marks of citations, as they come and as no model should write them."""

from __future__ import annotations

from hypothesis import strategies as st

PIECES = [
    "예산은 35,750,000원이다",
    "Net sales rose 8.5%",
    " [1]",
    "[2, 3]",
    "【3】",
    "[7]",
    "[1-99]",
    ". ",
    "\n",
    "900",
    "[",
]
ANSWERS = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)
