"""Which duplicates are certain while some documents are not known yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.artifacts import Artifacts
from storage.records import Ref
from tasks.documents.blocks import ImageCandidate
from tasks.rag.corpus import Parsed, Pictured, Source
from tasks.rag.indexing.figures import DocumentFigures, FigureSettings, found
from tasks.rag.indexing.picturing import marked_for_certain, with_duplicates_marked
from tests.rag.indexing.test_figures import chart, encoded

SAME, OTHER = chart(90, 150, 60), chart(30, 40, 50, 60)


def document(number: int, artifacts: Artifacts, *pictures: object) -> tuple[Pictured, ...]:
    """A shard of one document."""
    digest, records = f"{number:064x}", []
    for n, picture in enumerate(pictures):
        png = encoded(picture)  # pyright: ignore[reportArgumentType]
        candidate = ImageCandidate(page=1, bbox=None, n=n, source="raster", png=png, width=400, height=300)
        kept = artifacts.put("figure", png)
        records.append(found(candidate, document=digest, image=kept, settings=FigureSettings()))
    figures = artifacts.save("figures", DocumentFigures(document=digest, figures=tuple(records)))
    source = Source(content=Ref(kind="document", digest=digest, size=1), suffix=".pdf")
    return (Pictured(parsed=Parsed(source=source), figures=figures),)


def objects(artifacts: Artifacts) -> list[str]:
    return sorted(one.ref.digest for one in artifacts.objects())


@pytest.mark.parametrize("dedupe", [True, False])
@pytest.mark.parametrize("unknown", [(), (0,), (1,), (2,), (4,), (1, 3), (0, 1, 2, 3, 4)], ids=str)
def test_what_is_certain_is_what_will_be_marked(unknown: tuple[int, ...], dedupe: bool, tmp_path: Path) -> None:
    artifacts, settings = Artifacts(tmp_path), FigureSettings(qwen3_vl_dedupe_images=dedupe)
    contents = [(OTHER,), (SAME,), (SAME, OTHER), (), (SAME,)]
    shards = tuple(document(number, artifacts, *pictures) for number, pictures in enumerate(contents))
    before = objects(artifacts)

    certain = marked_for_certain(
        [None if at in unknown else shard for at, shard in enumerate(shards)], artifacts, settings=settings
    )

    assert objects(artifacts) == before
    marked = with_duplicates_marked(shards, artifacts, settings=settings)
    first = min(unknown, default=len(shards))
    sure = [at for at in range(len(shards)) if at not in unknown and (at < first or not dedupe or not contents[at])]
    assert [at for at, shard in enumerate(certain) if shard is not None] == sure
    assert [certain[at] for at in sure] == [marked[at] for at in sure]
