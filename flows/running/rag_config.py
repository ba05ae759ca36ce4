"""Parameters of the flows of `flows.rag`: the Prefect UI draws its forms from them, `trivet rag` its options."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any

from pydantic import Field, JsonValue, ValidationInfo, field_validator, model_validator

from flows.running.answer_models import add_price, resolve_name
from flows.running.config_reading import FlowConfig, IndexPlace
from tasks.budget import Spending
from tasks.documents.document_readers import ReadOptions
from tasks.documents.isolation import ReadLimits
from tasks.rag import CHUNK_CHARS, OVERLAP_CHARS
from tasks.rag.answers import AnswerSettings
from tasks.rag.indexing.figures import FigureSettings


class IndexConfig(FlowConfig):
    """Parameters of the flow `build_index`; the Prefect UI draws its form from them."""

    documents: Path
    """Folder of the documents; subfolders and ZIPs of attachments are read too."""
    index: IndexPlace
    """Folder of the index, made when it is missing; or the address of an engine: `postgresql://user@host/name`."""
    metadata: Path | None = None
    """CSV with facts about the documents (공고 번호, 사업명, 발주 기관, 파일명 …)."""
    include: tuple[str, ...] = ()
    """Index only files that match this glob, such as `**/*.pdf`; may be repeated."""
    exclude: tuple[str, ...] = ()
    """Leave out files that match this glob; may be repeated."""
    again: tuple[str, ...] = ()
    """Read this document again though it has not changed, by its name below the folder; may be repeated."""
    password_env: str | None = None
    """Environment variable that holds the password of encrypted documents."""
    reading: ReadOptions = ReadOptions()
    """How documents are read."""
    limits: ReadLimits = ReadLimits()
    """Limits on time and memory for reading a page."""
    chunk_chars: int = Field(default=CHUNK_CHARS, ge=100, le=20_000)
    """Maximum length of a chunk, in characters."""
    overlap_chars: int = Field(default=OVERLAP_CHARS, ge=0, validate_default=True)
    """Characters that a chunk repeats from the end of the previous one."""
    embedder: str = "minilm"
    """Embedding model: `minilm`, `e5` (many languages), a sentence-transformers name or path (`hf:…` is the same), or
    `openai:MODEL`."""
    vlm: str | None = None
    """Model that describes figures: `openai:MODEL` at an endpoint; `hf:FOLDER` or `vllm:FOLDER` in this process,
    arguments after a comma (`hf:FOLDER,dtype=bfloat16`); `scripted`; or a name from the file that TRIVET_MODELS names.
    Unset: figures are skipped."""
    figures: FigureSettings = FigureSettings()
    """Which images are described, and how the model is asked."""
    spending: Spending = Spending()
    """Limits on model calls; figures left over are recorded as skipped, and the next run continues with them."""
    max_failed_share: float = Field(default=0.5, ge=0, le=1)
    """Publish nothing if a larger share of the documents failed."""
    preview_chunks: int = Field(default=20, ge=0)
    """Number of chunks in `chunk_preview.json`."""

    @property
    def title(self) -> str:
        """Name of the run in the Prefect UI: `index FOLDER`."""
        return f"index {self.documents.name}"

    @property
    def left_out(self) -> tuple[str, ...]:
        """`exclude`, and the metadata file where it lies among the documents: it is no document."""
        if self.metadata is None or not self.metadata.is_relative_to(self.documents):
            return self.exclude
        return (*self.exclude, glob.escape(self.metadata.relative_to(self.documents).as_posix()))

    @property
    def reading_inputs(self) -> dict[str, Any]:
        """Inputs of the step `parse` besides the documents."""
        return {"options": self.reading, "limits": self.limits, "password_env": self.password_env}

    @model_validator(mode="before")
    @classmethod
    def _priced(cls, values: Any) -> Any:
        return add_price(values, model_field="vlm")

    @field_validator("documents", "index", "metadata")
    @classmethod
    def _make_absolute(cls, path: Path | None) -> Path | None:
        return path and path.absolute()

    @field_validator("overlap_chars")
    @classmethod
    def _fits_into_a_chunk(cls, overlap: int, fields: ValidationInfo) -> int:
        chunk = fields.data.get("chunk_chars", overlap + 1)  # absent where chunk_chars itself was refused
        if overlap >= chunk:
            raise ValueError(f"{overlap:,} characters do not fit into chunks of {chunk:,}; give fewer, or longer ones")
        return overlap

    @field_validator("vlm")
    @classmethod
    def _spelled_out(cls, vlm: str | None) -> str | None:
        return vlm and resolve_name(vlm)

    def require_inputs(self) -> None:
        """Raise FolderUnusable or MetadataUnusable where the folder or the table of metadata cannot be read."""
        from tasks.rag.indexing.metadata import read_table
        from tasks.rag.indexing.scan import require_folder

        require_folder(self.documents)
        if self.metadata:
            read_table(self.metadata)

    def index_settings(self, vlm: str | None, *, tokenizer: str, weights: str, seen_by: str) -> dict[str, JsonValue]:
        """Return the settings that an index records; a change rebuilds all documents.

        vlm: full name of the model. weights, seen_by: fingerprints of the embedder and of that model.
        """
        own = self.model_dump(mode="json", include={"reading", "chunk_chars", "overlap_chars", "embedder"})
        settings = own | {"vlm": vlm, "tokenizer": tokenizer, "weights": weights}
        return settings | {"vlm_weights": seen_by} if seen_by else settings


class AnswerConfig(FlowConfig):
    """Parameters of the flow `answer_batch`; the Prefect UI draws its form from them."""

    questions: Path
    """JSONL file, one question per line: `{id, question, history?}`."""
    index: IndexPlace
    """Folder of the index, or the address of an engine."""
    out: Path
    """JSONL file for the answers, in the order of the questions."""
    llm: str | None = None
    """Model that answers. `none` quotes the documents; `local` and `openai` use the models of the settings. One model:
    `openai:MODEL` at an endpoint; `hf:FOLDER` or `vllm:FOLDER` in this process, arguments after a comma
    (`hf:FOLDER,dtype=bfloat16`); or a name from the file that TRIVET_MODELS names. Unset: TRIVET_LLM, else `none`."""
    reranker: str | None = None
    """Cross-encoder that reorders the chunks, by name or path (`hf:…` is the same). Unset: none."""
    answers: AnswerSettings = AnswerSettings()
    """How chunks are found, and how much of them an answer uses."""
