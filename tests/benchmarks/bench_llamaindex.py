"""First index, unchanged run and one changed document, beside LlamaIndex's IngestionPipeline.

    python tests/benchmarks/bench_llamaindex.py --documents FOLDER --peer-python PEERS/bin/python

Same files, same weights, same chunks (ours, exported); OMP_NUM_THREADS=1. CPU seconds are user + system of the command
and all its children. `above start` subtracts the same command over a folder with one short text: what the documents
cost beyond interpreter, imports and embedder. Memory growth is the peak of the command's processes together (RSS)
above that of a process that has loaded the embedder and embedded one text. Linux only.
"""

from __future__ import annotations

import argparse
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
from typing import Any, NamedTuple

from tasks.rag.indexing.chunks import Chunk
from tests.benchmarks.measuring import options, status_mb
from tests.sandbox.attacking import descendants

PEER = Path(__file__).parent / "peers" / "llamaindex_ingest.py"
FILES = ("BESTBUY_2023_10K.pdf", "ULTABEAUTY_2023Q4_EARNINGS.pdf")
CHANGED = "ULTABEAUTY_2023Q4_EARNINGS.pdf"
RUNS = ("first", "unchanged", "changed")
TARGETS = {"first": 0.7, "unchanged": 0.1}
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


def main() -> None:
    """Run both sides for each precision, print a table, or JSON with `--json`."""
    from models.weight_files import minilm_folder

    parser = options(__doc__)
    parser.add_argument("--documents", type=Path, required=True, help=f"folder with {' and '.join(FILES)}")
    parser.add_argument("--peer-python", required=True, help="interpreter with peers/peers.txt installed")
    parser.add_argument("--peer-reader", choices=["pypdf", "pymupdf"], default="pymupdf", help="the faster by default")
    parser.add_argument("--model", type=Path, default=minilm_folder(), help="weights for the peer")
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"], choices=["fp32", "bf16"])
    chosen = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for precision in chosen.precisions:
        with tempfile.TemporaryDirectory(prefix="bench-llamaindex-") as work:
            rows += compare(chosen, precision, Path(work))
    print(json.dumps(rows) if chosen.json else _table(rows))


def compare(chosen: argparse.Namespace, precision: str, work: Path) -> list[dict[str, Any]]:
    """A row for each run. The chunks that our side makes are what the peer embeds."""
    folders = {name: work / name for name in ("first", "changed", "tiny")}
    for name in ("first", "changed"):
        folders[name].mkdir()
        for file in FILES:
            shutil.copy(chosen.documents / file, folders[name])
    _change(folders["changed"] / CHANGED)
    folders["tiny"].mkdir()
    (folders["tiny"] / "note.txt").write_text("One short text.\n")
    ours = _ours(chosen.documents, precision, work, folders)
    peer = _peer(chosen, precision, work, folders)
    return [_row(precision, run, ours, peer) for run in RUNS]


def _ours(documents: Path, precision: str, work: Path, folders: dict[str, Path]) -> Side:
    trivet, embedder = str(Path(sys.executable).with_name("trivet")), f"minilm:{precision}"

    def index(home: str, folder: Path) -> Cost:
        command = [trivet, "rag", "index", str(folder), "--index", str(work / f"{home}-index")]
        return measure([*command, "--embedder", embedder, "--json"], home=work / home)

    def export(name: str) -> None:
        command = [trivet, "rag", "chunks", "--index", str(work / "ours-index"), "--all", "--json"]
        chunks = _read_chunks(measure(command, home=work / "ours").output)
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
    load = measure([sys.executable, "-c", OURS_LOAD.format(embedder=embedder)], home=work / "ours")
    return Side(runs, {**start, "changed": start["first"]}, load)


def _peer(chosen: argparse.Namespace, precision: str, work: Path, folders: dict[str, Path]) -> Side:
    base = [chosen.peer_python, str(PEER), "--model", str(chosen.model), "--reader", chosen.peer_reader]
    base += ["--bf16"] if precision == "bf16" else []

    def ingest(state: str, folder: Path, chunks: str) -> Cost:
        arguments = ["--documents", str(folder), "--chunks", str(work / f"{chunks}.json"), "--state", str(work / state)]
        return measure(base + arguments, home=work / state)

    (work / "tiny.json").write_text(json.dumps([{"id": "note#1", "text": "One short text."}]))
    start = {run: ingest("peer-tiny", folders["tiny"], "tiny") for run in ("first", "unchanged")}
    runs = {"first": ingest("peer", folders["first"], "first"), "unchanged": ingest("peer", folders["first"], "first")}
    runs["changed"] = ingest("peer", folders["changed"], "changed")
    return Side(runs, {**start, "changed": start["first"]}, measure(base, home=work / "peer"))


def measure(command: list[str], *, home: Path) -> Cost:
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


def _row(precision: str, run: str, ours: Side, peer: Side) -> dict[str, Any]:
    figures: dict[str, Any] = {"precision": precision, "run": run}
    for name, side in (("ours", ours), ("peer", peer)):
        cost, start = side.runs[run], side.start[run]
        figures |= {
            f"{name}_cpu_s": round(cost.cpu_s, 2),
            f"{name}_above_start_s": round(max(cost.cpu_s - start.cpu_s, 0.01), 2),
            f"{name}_peak_mb": round(cost.peak_mb),
            f"{name}_growth_mb": round(max(cost.peak_mb - side.load.peak_mb, 1)),
        }
    for figure in ("cpu_s", "above_start_s", "growth_mb"):
        figures[f"ratio_{figure}"] = round(figures[f"ours_{figure}"] / figures[f"peer_{figure}"], 2)
    return figures | {"target": TARGETS.get(run), "versions": json.loads(peer.load.output)["versions"]}


def _table(rows: list[dict[str, Any]]) -> str:
    columns = ("precision", "run", "cpu_s", "above_start_s", "peak_mb", "growth_mb")
    lines = [f"peer: {rows[0]['versions']}", " | ".join(f"{name:>22}" for name in columns)]
    for row in rows:
        cells = [f"{row['precision']:>22}", f"{row['run']:>22}"]
        for name in columns[2:]:
            ratio = f" = {row[f'ratio_{name}']:.2f}" if f"ratio_{name}" in row else ""
            cells.append(f"{row[f'ours_{name}']} / {row[f'peer_{name}']}{ratio}".rjust(22))
        lines.append(" | ".join(cells))
    return "\n".join([*lines, "ours / LlamaIndex = ratio; asked: first ≤ 0.7, unchanged ≤ 0.1, growth ≤ 0.7"])


if __name__ == "__main__":
    main()
