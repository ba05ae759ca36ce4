"""The words and numbers of charts and diagrams, which Word keeps beside the picture that it draws from them."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from tasks.rag.documents.docx_inline import CHART, A


def drawn_text(root: ET.Element) -> str:
    """A chart as title and rows (`category | series | series`), a diagram as lines."""
    return _chart(root) if root.tag == f"{CHART}chartSpace" else "\n".join(_paragraphs(root))


def _paragraphs(root: ET.Element) -> list[str]:
    texts = ("".join(text.text or "" for text in paragraph.iter(f"{A}t")) for paragraph in root.iter(f"{A}p"))
    return [text for text in texts if text.strip()]


def _chart(root: ET.Element) -> str:
    series = list(root.iter(f"{CHART}ser"))
    columns = [_points(one, ("val", "yVal")) for one in series]
    categories = next((points for one in series if (points := _points(one, ("cat", "xVal")))), {})
    names = [" ".join(_points(one, ("tx",)).values()) for one in series]
    rows = [[categories.get(n, ""), *(column.get(n, "") for column in columns)] for n in _indices(categories, columns)]
    table = [["", *names], *rows] if rows else []
    return "\n".join([*_paragraphs(root), *(" | ".join(row) for row in table)])


def _points(series: ET.Element, parts: tuple[str, ...]) -> dict[int, str]:
    """Cached values by position; categories of several levels are joined."""
    points: dict[int, str] = {}
    for part in parts:
        for point in (point for node in series.findall(CHART + part) for point in node.iter(f"{CHART}pt")):
            index, value = int(point.get("idx", "0")), point.findtext(f"{CHART}v") or ""
            points[index] = f"{value} {points[index]}" if index in points else value
    return points


def _indices(categories: dict[int, str], columns: list[dict[int, str]]) -> list[int]:
    return sorted(set(categories).union(*columns))
