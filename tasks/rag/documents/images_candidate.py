"""A picture of a document, as a reader of any format hands it on."""

from __future__ import annotations

from typing import Literal

from storage.records import Record
from tasks.rag.documents.blocks import BBox

LONGEST_SIDE_PX = 2048
"""Larger pictures are scaled down: vision models do so themselves, and the store need not keep a poster."""


class ImageCandidate(Record):
    """A picture as a reader sees it: upright, RGB, transparent parts white or as the page shows them."""

    page: int | None
    """1-based; None where the format stores no pages."""
    bbox: BBox | None
    n: int
    """1-based order on its page, or in its document where there are no pages."""
    source: Literal["raster", "vector"]
    png: bytes = b""
    """Empty when there is a problem."""
    width: int = 0
    """Pixels of the original, before it was scaled down."""
    height: int = 0
    problem: str | None = None
    """Why there is no picture: unsupported format, damaged, not fetched …"""
