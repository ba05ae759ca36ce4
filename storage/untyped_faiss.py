"""FAISS, which takes a while to import."""

from __future__ import annotations

from typing import Any


def open_faiss() -> Any:
    """FAISS, on first need; untyped, for its stubs know neither its parameters nor its callbacks."""
    import faiss

    return faiss
