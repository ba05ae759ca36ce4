"""Parameters of the flow that builds an index."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from flows.running.rag_config import IndexConfig


def test_the_metadata_file_among_the_documents_is_no_document(tmp_path: Path) -> None:
    config = IndexConfig(
        documents=tmp_path, index=tmp_path / "out", metadata=tmp_path / "a/meta[1].csv", exclude=("drafts/",)
    )
    assert config.left_out == ("drafts/", "a/meta[[]1].csv")


def test_a_metadata_file_elsewhere_leaves_nothing_out(tmp_path: Path) -> None:
    config = IndexConfig(documents=tmp_path / "in", index=tmp_path / "out", metadata=tmp_path / "meta.csv")
    assert config.left_out == ()


@pytest.mark.parametrize("sizes", [{"chunk_chars": 100}, {"chunk_chars": 300, "overlap_chars": 300}], ids=str)
def test_an_overlap_has_to_be_smaller_than_a_chunk(tmp_path: Path, sizes: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match=f"do not fit into chunks of {sizes['chunk_chars']}"):
        IndexConfig.model_validate({"documents": tmp_path, "index": tmp_path, **sizes})
    assert IndexConfig.model_validate({"documents": tmp_path, "index": tmp_path, "chunk_chars": 121}).chunk_chars == 121
