"""What describing the figures of a folder would take, without asking a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from models.protocols import Chat
from storage.artifacts import Artifacts
from tasks import progress
from tasks.calls import ResponseStore, answered
from tasks.rag.corpus import Parsed, flat
from tasks.rag.documents.errors import DocumentError
from tasks.rag.documents.isolation import ReadLimits
from tasks.rag.documents.sniff import sniff
from tasks.rag.indexing.figures import DocumentFigures, FigurePlan, FigureRecord, FigureSettings, figure_request, plan
from tasks.rag.indexing.picturing import figures_of, with_duplicates_marked
from tasks.rag.indexing.scan import scan_folder


def plan_folder(
    folder: Path,
    artifacts: Artifacts,
    *,
    include: Sequence[str],
    exclude: Sequence[str],
    settings: FigureSettings,
    limits: ReadLimits,
    password: str | None,
    chat: Chat | None,
    responses: ResponseStore,
) -> FigurePlan:
    """Count figures, why they are dropped, and the questions that would be asked. Raises FolderUnusable.

    chat: the model that would be asked; what it answered before is looked up, not asked.
    """
    found = scan_folder(folder, artifacts=artifacts, include=include, exclude=exclude)
    progress.expect("extract_figures", len(found.sources))
    pictured = []
    for source in found.sources:
        progress.advance("extract_figures")
        try:
            sniffed = sniff(artifacts.path(source.content), suffix=source.suffix)
        except DocumentError:
            continue  # a document that cannot be read has no figures; indexing reports it
        parsed = Parsed(source=source, document=source.content, format=sniffed.format)
        pictured.append(figures_of(parsed, artifacts, settings=settings, limits=limits, password=password))
    marked = flat(with_duplicates_marked((tuple(pictured),), artifacts, settings=settings))
    documents = [artifacts.load(DocumentFigures, item.figures) for item in marked if item.figures]
    records = [record for document in documents for record in document.figures]
    known = _answered(records, artifacts, chat, responses, settings) if chat else set[str]()
    return plan(records, answered=known)


def _answered(
    records: Sequence[FigureRecord],
    artifacts: Artifacts,
    chat: Chat,
    responses: ResponseStore,
    settings: FigureSettings,
) -> set[str]:
    """Digests of the pictures whose description is in the response store."""
    images = {record.image.digest: record.image for record in records if record.status == "kept" and record.image}
    requests = ((digest, figure_request(artifacts.get(image), settings)) for digest, image in images.items())
    return {digest for digest, request in requests if answered(chat, request, responses)}
