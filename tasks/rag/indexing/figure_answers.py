"""Whether a vision model's answer says anything: a rule, since models that find nothing say so in many words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_PLACEHOLDER = re.compile(r"[\s\-–—…·.*:?]*|n/?a|none|null|nil|unknown|not \w+|없음|해당 ?없음|미상|알 수 없음", re.I)
_LABEL = re.compile(
    r"(title|period|legend|table|figures?|notes?|source|unit|data"
    r"|제목|기간|범례|표|수치|단위|주석?|출처|데이터)\s*[:：]",
    re.I,
)
_NOTHING = re.compile(
    r"\bno (data|numbers?|numeric\w*|figures?|text|tables?|charts?|values?|information|content|visible|readable)\b"
    r"|\b(does not|doesn't|do not|don't) (contain|show|include|have|display|present)\b"
    r"|\b(cannot|can't|could not|unable to|not able to) (see|read|view|identify|determine|extract|find|process)\b"
    r"|\b(blank|empty|decorative|ornamental|illegible|unreadable)\b"
    r"|(수치|데이터|정보|숫자|텍스트|내용|자료|값|표|그래프|차트|글자|문자)[가-힣]{0,2}\s*(전혀 |따로 )?"
    r"(없|존재하지|포함되어 있지|포함하지|확인할 수|확인되지|보이지|나타나지|식별)"
    r"|(읽|볼|알|판독할|식별할|추출할|확인할) 수(가|는)? 없"
    r"|빈 (이미지|페이지|화면)|장식",
    re.I,
)
_EMBLEM = re.compile(r"\b(logo|logotype|icon|watermark|emblem)\b|로고|아이콘|워터마크|엠블럼", re.I)
EMBLEM_CHARS = 120
"""A sentence as short as this that names an emblem says only that there is one."""


def is_informative(answer: str) -> bool:
    """True when something is left of an answer once the sentences that say nothing are taken out."""
    lines = [line.strip() for line in unicodedata.normalize("NFC", answer).splitlines()]
    rows = [line for line in lines if line.startswith("|")]
    if any(_has_values(row) for row in _data_rows(rows)):
        return True
    return any(
        _says_something(sentence)
        for line in lines
        if not line.startswith("|")
        for sentence in re.split(r"(?<=[.!?。])\s+", line)
    )


def _data_rows(rows: Sequence[str]) -> list[str]:
    """Rows below the line that ends a Markdown table's header; all rows where there is none."""
    rules = [place for place, row in enumerate(rows) if set(row) <= set("|-: ")]
    return [row for row in rows[rules[0] + 1 :] if not set(row) <= set("|-: ")] if rules else list(rows)


def _has_values(row: str) -> bool:
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    values = cells[1:] or cells  # the first column names the row
    return any(not _PLACEHOLDER.fullmatch(cell) for cell in values)


def _says_something(sentence: str) -> bool:
    text = re.sub(r"\[?PAGE \d+ IMAGE \d+\]?|[*#`>_]|^[-•]\s+", " ", sentence).strip()
    text = _LABEL.sub(" ", text, count=1).strip(" .。:-")
    if _PLACEHOLDER.fullmatch(text) or _NOTHING.search(text):
        return False
    return not (_EMBLEM.search(text) and len(text) < EMBLEM_CHARS)
