"""First index, unchanged run and one changed document, beside LlamaIndex's IngestionPipeline.

Same files, same weights, same chunks (ours, exported); OMP_NUM_THREADS=1. CPU seconds are user + system of the command
and all its children. `above start` subtracts the same command over a folder with one short text: what the documents
cost beyond interpreter, imports and embedder. Memory growth is the peak of the command's processes together (RSS)
above that of a process that has loaded the embedder and embedded one text. Linux only.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tasks.rag.indexing.chunks import Chunk
from tests.benchmarks.measuring import Figures, status_mb
from tests.sandbox.attacking import descendants

PEER = Path(__file__).parent / "peers" / "llamaindex_ingest.py"
FILES = ("BESTBUY_2023_10K.pdf", "ULTABEAUTY_2023Q4_EARNINGS.pdf")
CHANGED = "ULTABEAUTY_2023Q4_EARNINGS.pdf"
RUNS = ("first", "unchanged", "changed")
PRECISIONS = ["fp32", "bf16"]
SAMPLE_EVERY_S = 0.05
# stays a moment, so that its memory is seen
OURS_LOAD = "import time; from models.embedders import open_embedder as o; o('{embedder}').embed(['a']); time.sleep(1)"


class Cost(NamedTuple):
    """What one command took."""

    cpu_s: float
    peak_mb: float
    output: str


class Side(NamedTuple):
    """Costs of one side: of each run, of the same runs over one short text, and of loading the embedder."""

    runs: dict[str, Cost]
    start: dict[str, Cost]
    load: Cost


def measure(
    documents: Path, peers: Path, reader: str = "pymupdf", model: Path | None = None, precision: list[str] = PRECISIONS
) -> Figures:
    """Both sides for each precision; the chunks that our side makes are what the peer embeds.

    peers: python with peers/peers.txt. reader: the peer's, pypdf or pymupdf, the faster one. model: its weights.
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
            base = [str(peers), str(PEER), "--model", str(model or minilm_folder()), "--reader", reader]
            theirs = _peer([*base, "--bf16"] if name == "bf16" else base, work, folders)
        yield from json.loads(theirs.load.output)["versions"].items()
        for run in RUNS:
            for whose, side in (("ours", ours), ("theirs", theirs)):
                cost, start = side.runs[run], side.start[run]
                yield f"{name}, {run}: {whose}, CPU s", cost.cpu_s
                yield f"{name}, {run}: {whose}, CPU s above start", max(cost.cpu_s - start.cpu_s, 0.01)
                yield f"{name}, {run}: {whose}, peak MB", cost.peak_mb
                yield f"{name}, {run}: {whose}, growth of memory, MB", max(cost.peak_mb - side.load.peak_mb, 1)


def _ours(documents: Path, precision: str, work: Path, folders: dict[str, Path]) -> Side:
    trivet, embedder = str(Path(sys.executable).with_name("trivet")), f"minilm:{precision}"

    def index(home: str, folder: Path) -> Cost:
        command = [trivet, "rag", "index", str(folder), "--index", str(work / f"{home}-index")]
        return cost_of_command([*command, "--embedder", embedder, "--json"], home=work / home)

    def export(name: str) -> None:
        command = [trivet, "rag", "chunks", "--index", str(work / "ours-index"), "--all", "--json"]
        chunks = _read_chunks(cost_of_command(command, home=work / "ours").output)
        (work / f"{name}.json").write_text(json.dumps(chunks))

    start = {"first": index("tiny-home", folders["tiny"]), "unchanged": index("tiny-home", folders["tiny"])}
    runs = {"first": index("ours", folders["first"])}
    export("first")
    runs["unchanged"] = index("ours", folders["first"])
    # the folder keeps its path: only the bytes of one document change
    shutil.copy(folders["changed"] / CHANGED, folders["first"] / CHANGED)
    runs["changed"] = index("ours", folders["first"])
    export("changed")
    shutil.copy(documents / CHANGED, folders["first"] / CHANGED)
    load = cost_of_command([sys.executable, "-c", OURS_LOAD.format(embedder=embedder)], home=work / "ours")
    return Side(runs, {**start, "changed": start["first"]}, load)


def _peer(base: list[str], work: Path, folders: dict[str, Path]) -> Side:
    def ingest(state: str, folder: Path, chunks: str) -> Cost:
        arguments = ["--documents", str(folder), "--chunks", str(work / f"{chunks}.json"), "--state", str(work / state)]
        return cost_of_command(base + arguments, home=work / state)

    (work / "tiny.json").write_text(json.dumps([{"id": "note#1", "text": "One short text."}]))
    start = {run: ingest("peer-tiny", folders["tiny"], "tiny") for run in ("first", "unchanged")}
    runs = {"first": ingest("peer", folders["first"], "first"), "unchanged": ingest("peer", folders["first"], "first")}
    runs["changed"] = ingest("peer", folders["changed"], "changed")
    return Side(runs, {**start, "changed": start["first"]}, cost_of_command(base, home=work / "peer"))


def cost_of_command(command: list[str], *, home: Path) -> Cost:
    """Run `command` to its end. CalledProcessError with what it wrote if it fails.

    Children that it leaves behind (a database that stays up) are not waited for, so their CPU is not counted.
    """
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "TRIVET_HOME": str(home),
        "LLAMA_INDEX_CACHE_DIR": str(home / "llama-index"),
    }
    home.mkdir(exist_ok=True)
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=output, stderr=errors, env=environment)
        peak_mb = 0.0
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            total_mb = 0.0  # pages shared with a child count for both
            for member in descendants([process.pid]):
                with suppress(OSError, StopIteration):  # it has just ended
                    total_mb += status_mb("VmRSS:", member)
            peak_mb = max(peak_mb, total_mb)
            time.sleep(SAMPLE_EVERY_S)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            sys.stderr.write(errors.read().decode()[-4_000:])
            raise subprocess.CalledProcessError(process.returncode, command)
        output.seek(0)
        return Cost(cpu_s=usage.ru_utime + usage.ru_stime, peak_mb=peak_mb, output=output.read().decode())


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
