"""Pictures of a document: what is embedded as pixels, and charts that are drawn. Runs in a child process, like readers.

A picture that cannot be decoded comes with a `problem` in place of pixels; only a document that cannot be opened at
all raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tasks.rag.documents.images_candidate import ImageCandidate


def find_images(path: Path, format: str, *, password: str | None) -> Iterator[ImageCandidate]:
    """The pictures of a document in reading order; none for formats that hold none.

    Raises tasks.rag.documents.errors.DocumentError.
    """
    match format:
        case "pdf":
            from tasks.rag.documents.images_pdf import pdf_images

            return pdf_images(path, password=password)
        case "docx":
            from tasks.rag.documents.images_docx import docx_images

            return docx_images(path)
        case "hwpx":
            from tasks.rag.documents.images_hwp import hwpx_images

            return hwpx_images(path, password=password)
        case "hwp":
            from tasks.rag.documents.images_hwp import hwp_images

            return hwp_images(path, password=password)
        case _:
            return iter(())
