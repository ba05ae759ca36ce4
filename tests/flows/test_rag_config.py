"""Parameters of the flow that builds an index."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from flows.running.rag_config import IndexConfig
from storage.engines import address_of


def test_the_metadata_file_among_the_documents_is_no_document(tmp_path: Path) -> None:
    config = IndexConfig(
        documents=tmp_path, index=tmp_path / "out", metadata=tmp_path / "a/meta[1].csv", exclude=("drafts/",)
    )
    assert config.left_out == ("drafts/", "a/meta[[]1].csv")


def test_folders_are_named_as_they_are_from_every_folder() -> None:
    config = IndexConfig(documents=Path("in"), index=Path("out"), metadata=Path("meta.csv"))
    assert (config.documents, config.index, config.metadata) == (
        Path("in").absolute(),
        Path("out").absolute(),
        Path("meta.csv").absolute(),
    )


def test_a_metadata_file_elsewhere_leaves_nothing_out(tmp_path: Path) -> None:
    config = IndexConfig(documents=tmp_path / "in", index=tmp_path / "out", metadata=tmp_path / "meta.csv")
    assert config.left_out == ()


@pytest.mark.parametrize("sizes", [{"chunk_chars": 100}, {"chunk_chars": 300, "overlap_chars": 300}], ids=str)
def test_an_overlap_has_to_be_smaller_than_a_chunk(tmp_path: Path, sizes: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match=f"do not fit into chunks of {sizes['chunk_chars']}"):
        IndexConfig.model_validate({"documents": tmp_path, "index": tmp_path, **sizes})
    assert IndexConfig.model_validate({"documents": tmp_path, "index": tmp_path, "chunk_chars": 121}).chunk_chars == 121


def test_an_address_is_kept_without_its_password_which_libpq_finds_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "")
    given = "postgresql://me:s3cret@host:5432/chunks?schema=bank"
    config = IndexConfig.model_validate({"documents": tmp_path, "index": given})
    assert config.model_dump(mode="json")["index"] == "postgresql://me@host:5432/chunks?schema=bank"
    assert "s3cret" not in config.model_dump_json() + repr(config)
    assert address_of(config.index) == "postgresql://me@host:5432/chunks?schema=bank"
    assert os.environ["PGPASSWORD"] == "s3cret"
    assert IndexConfig.model_validate_json(config.model_dump_json()) == config
