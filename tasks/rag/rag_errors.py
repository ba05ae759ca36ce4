"""What stops a run. A single bad document is a record, not an error.

RagError
├── FolderUnusable       the folder of documents is missing, a file, or holds nothing to index
├── MetadataUnusable     the CSV beside the documents cannot be read
├── QuestionsUnusable    the file of questions cannot be read
├── UnknownDocument      the index holds no document of that name
├── StrategyUnusable     there is no retrieval strategy of that name, or an installed one cannot be used
├── TooManyFailed        more documents failed than the user allows: nothing is published
└── Unfinished           what could be done is published, the rest may succeed another time

storage.storage_errors.IndexUnusable
├── NoLexicalIndex       the index was made without BM25
└── tasks.language.tokens.WrongTokenizer  it was made with a Korean tokenizer that is not installed here
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storage.storage_errors import IndexUnusable, list_reasons


class RagError(Exception):
    """Root of these errors; the message is a full sentence with the remedy."""


class FolderUnusable(RagError):
    """The folder of documents does not exist, is not a folder, or holds no file that can be indexed."""


class MetadataUnusable(RagError):
    """The CSV is missing, not text, or has no column with file names."""


class QuestionsUnusable(RagError):
    """The file of questions is missing, not JSONL, or says nothing."""


class UnknownDocument(RagError, ValueError):
    """The index holds no document of that name."""


class StrategyUnusable(RagError, ValueError):
    """There is no retrieval strategy of that name, or that of an installed package cannot be imported or is none."""


class TooManyFailed(RagError):
    """More documents failed than the user allows. failed: the reason of each, by name."""

    def __init__(self, share: float, *, allowed: float, failed: Mapping[str, str] | None = None) -> None:
        reasons = f" ({list_reasons(failed)})" if failed else ""
        super().__init__(
            f"{share:.0%} of the documents could not be read{reasons}, more than the {allowed:.0%} allowed, so nothing "
            "was published; see `trivet rag status`, mend or exclude them, or raise `max_failed_share`."
        )


class Unfinished(RagError):
    """Some items may succeed another time; all others are published."""

    def __init__(self, unfinished: Mapping[str, str], *, report: Any, items: str = "documents") -> None:
        count = f"1 {items.removesuffix('s')} is" if len(unfinished) == 1 else f"{len(unfinished)} {items} are"
        super().__init__(
            f"{count} unfinished ({list_reasons(unfinished)}); run again, or retry the run, to redo just these."
        )
        self.report = report
        """What is published: tasks.rag.indexing.index_report.IndexReport, or tasks.rag.batching.BatchReport."""


class NoLexicalIndex(IndexUnusable):
    """The index was made without BM25 and has no postings."""

    def __init__(self) -> None:
        super().__init__("the index was made without BM25; search with --strategy similarity or mmr")
