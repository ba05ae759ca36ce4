"""LlamaIndex's IngestionPipeline over a folder of PDFs, for bench_llamaindex.py; needs only peers/peers.txt.

Its reader reads the files in every run. Nodes are the chunks that it is given, one Document each with an id that
stays the same, so that the upserts of its document store skip what is unchanged: the finest grain it offers.
Prints one JSON object.
"""

# pyright: reportMissingImports=false, reportUnknownParameterType=false
from __future__ import annotations

import argparse
import json
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("llama-index-core", "llama-index-embeddings-huggingface", "llama-index-readers-file", "torch")


def main() -> None:
    """Load the embedder; with `--documents`, also read, embed what changed, and save."""
    options = _options()
    embedder = _embedder(options.model, bf16=options.bf16)
    report: dict[str, Any] = {"versions": {name: version(name) for name in PACKAGES}}
    if options.documents is None:
        embedder.get_text_embedding("a text")
        time.sleep(1)  # so that its memory is seen
    else:
        pages = _read(options.documents)
        chunks = json.loads(options.chunks.read_text("utf-8"))
        report |= {"pages": pages, "nodes": len(chunks), "embedded": _ingest(embedder, chunks, options.state)}
    print(json.dumps(report))


def _embedder(model: Path, *, bf16: bool) -> Any:
    import torch
    from llama_index.embeddings.huggingface import HuggingFaceEmbedding

    weights = {"dtype": torch.bfloat16} if bf16 else {}
    return HuggingFaceEmbedding(model_name=str(model), device="cpu", embed_batch_size=10, model_kwargs=weights)


def _read(folder: Path) -> int:
    """Pages read, by the faster one of the two readers of PDFs that it offers."""
    from llama_index.core import SimpleDirectoryReader
    from llama_index.readers.file import PyMuPDFReader

    readers = {".pdf": PyMuPDFReader()}
    return len(SimpleDirectoryReader(str(folder), filename_as_id=True, file_extractor=readers).load_data())


def _ingest(embedder: Any, chunks: list[dict[str, str]], state: Path) -> int:
    """Nodes embedded in this run."""
    from llama_index.core import Document
    from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
    from llama_index.core.storage.docstore import SimpleDocumentStore
    from llama_index.core.vector_stores import SimpleVectorStore

    known = (state / "docstore.json").exists()
    docstore = SimpleDocumentStore.from_persist_dir(str(state)) if known else SimpleDocumentStore()
    vectors = SimpleVectorStore.from_persist_path(str(state / "vectors.json")) if known else SimpleVectorStore()
    pipeline = IngestionPipeline(
        transformations=[embedder],
        docstore=docstore,
        docstore_strategy=DocstoreStrategy.UPSERTS,
        vector_store=vectors,
        disable_cache=True,  # the document store already skips what is unchanged; the cache would only add its cost
    )
    nodes = pipeline.run(documents=[Document(text=chunk["text"], id_=chunk["id"]) for chunk in chunks])
    if nodes:
        docstore.persist(str(state / "docstore.json"))
        vectors.persist(str(state / "vectors.json"))
    return len(nodes)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="folder of the embedder's weights")
    parser.add_argument("--bf16", action="store_true", help="embed in bf16 instead of fp32")
    parser.add_argument("--documents", type=Path, help="folder of PDFs; without it only the embedder is loaded")
    parser.add_argument("--chunks", type=Path, help="JSON list of {id, text}")
    parser.add_argument("--state", type=Path, help="folder that keeps document store and vectors between runs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
