"""First index, unchanged run and one changed document, beside LlamaIndex's IngestionPipeline.

Same files, same weights, same chunks (ours, exported); OMP_NUM_THREADS=1. CPU seconds are user + system of the command
and all its children. `above start` subtracts the same command over a folder with one short text: what the documents
cost beyond interpreter, imports and embedder. Memory growth is the peak of the command's processes together (PSS)
above that of a process that has loaded the embedder and embedded one text. Linux only.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tasks.rag.indexing.chunks import Chunk
from tests.benchmarks.measuring import Cost, Figures, run, trivet

PEER = Path(__file__).parent / "peers" / "llamaindex_ingest.py"
FILES = ("BESTBUY_2023_10K.pdf", "ULTABEAUTY_2023Q4_EARNINGS.pdf")
CHANGED = "ULTABEAUTY_2023Q4_EARNINGS.pdf"
RUNS = ("first", "unchanged", "changed")
PRECISIONS = ["fp32", "bf16"]
# stays a moment, so that its memory is seen
OURS_LOAD = "import time; from models.embedders import open_embedder as o; o('{embedder}').embed(['a']); time.sleep(1)"


class Side(NamedTuple):
    """Costs of one side: of each run, of the same runs over one short text, and of loading the embedder."""

    runs: dict[str, Cost]
    start: dict[str, Cost]
    load: Cost


def measure(documents: Path, peers: Path, precision: list[str] = PRECISIONS) -> Figures:
    """Both sides for each precision; the chunks that our side makes are what the peer embeds.

    peers: python with peers/peers.txt.
    """
    from models.weight_files import minilm_folder

    for name in precision:
        with tempfile.TemporaryDirectory(prefix="bench-llamaindex-") as folder:
            work = Path(folder)
            folders = {name: work / name for name in ("first", "changed", "tiny")}
            for copy in ("first", "changed"):
                folders[copy].mkdir()
                for file in FILES:
                    shutil.copy(documents / file, folders[copy])
            _change(folders["changed"] / CHANGED)
            folders["tiny"].mkdir()
            (folders["tiny"] / "note.txt").write_text("One short text.\n")
            ours = _ours(documents, name, work, folders)
            base = [str(peers), str(PEER), "--model", str(minilm_folder())]
            theirs = _peer([*base, "--bf16"] if name == "bf16" else base, work, folders)
        yield from json.loads(theirs.load.output)["versions"].items()
        for when in RUNS:
            for whose, side in (("ours", ours), ("theirs", theirs)):
                cost, start = side.runs[when], side.start[when]
                yield f"{name}, {when}: {whose}, CPU s", cost.cpu_s
                yield f"{name}, {when}: {whose}, CPU s above start", max(cost.cpu_s - start.cpu_s, 0.01)
                yield f"{name}, {when}: {whose}, peak MB", cost.memory_mb
                yield f"{name}, {when}: {whose}, growth of memory, MB", max(cost.memory_mb - side.load.memory_mb, 1)


def _ours(documents: Path, precision: str, work: Path, folders: dict[str, Path]) -> Side:
    embedder = f"minilm:{precision}"

    def index(home: str, folder: Path) -> Cost:
        into = work / f"{home}-index"
        return trivet(work / home, "rag", "index", folder, "--index", into, "--embedder", embedder, watched=True)

    def export(name: str) -> None:
        told = trivet(work / "ours", "rag", "chunks", "--index", work / "ours-index", "--all", "--json")
        (work / f"{name}.json").write_text(json.dumps(_read_chunks(told.output)))

    start = {when: index("tiny-home", folders["tiny"]) for when in ("first", "unchanged")}
    runs = {"first": index("ours", folders["first"])}
    export("first")
    runs["unchanged"] = index("ours", folders["first"])
    # the folder keeps its path: only the bytes of one document change
    shutil.copy(folders["changed"] / CHANGED, folders["first"] / CHANGED)
    runs["changed"] = index("ours", folders["first"])
    export("changed")
    shutil.copy(documents / CHANGED, folders["first"] / CHANGED)
    load = run([sys.executable, "-c", OURS_LOAD.format(embedder=embedder)], watched=True)
    return Side(runs, {**start, "changed": start["first"]}, load)


def _peer(base: list[str], work: Path, folders: dict[str, Path]) -> Side:
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "LLAMA_INDEX_CACHE_DIR": str(work / "llama-index")}

    def ingest(state: str, folder: Path, chunks: str) -> Cost:
        (work / state).mkdir(exist_ok=True)
        arguments = ["--documents", folder, "--chunks", work / f"{chunks}.json", "--state", work / state]
        return run([*base, *arguments], environment, watched=True)

    (work / "tiny.json").write_text(json.dumps([{"id": "note#1", "text": "One short text."}]))
    start = {when: ingest("peer-tiny", folders["tiny"], "tiny") for when in ("first", "unchanged")}
    runs = {when: ingest("peer", folders["first"], "first") for when in ("first", "unchanged")}
    runs["changed"] = ingest("peer", folders["changed"], "changed")
    return Side(runs, {**start, "changed": start["first"]}, run(base, environment, watched=True))


def _change(pdf: Path) -> None:
    """One line more on the first page."""
    import pymupdf

    with pymupdf.open(pdf) as document:
        document[0].insert_text((36, 20), "Amended: net sales were restated.", fontsize=8)
        document.save(pdf.with_suffix(".new"))
    pdf.with_suffix(".new").replace(pdf)


def _read_chunks(output: str) -> list[dict[str, str]]:
    """`{id, text}` for each chunk of `rag chunks --json`; ids by page and content, so that few of them move."""
    seen: dict[str, int] = {}
    result: list[dict[str, str]] = []
    for chunk in json.loads(output)["chunks"]:
        text = Chunk.model_validate({name: chunk[name] for name in Chunk.model_fields}).search_text
        # equal texts on a page need ids of their own
        key = f"{chunk['page']}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        seen[key] = seen.get(key, 0) + 1
        result.append({"id": f"{key}-{seen[key]}", "text": text})
    return result
