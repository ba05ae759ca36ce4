"""JSON that no model describes: keys of what commands print and write on small samples."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.command import Done, run_apart, run_here
from tests.drills.levering import SMALL
from tests.evaluation.sums import write_benchmark
from tests.flows.asks import publish_texts

SAMPLES = Path(__file__).parents[1] / "samples"
QUESTION = {"id": "price", "question": "What is the bid price?", "document": "price.txt", "answer": "35,750,000 won"}
NAMED = re.compile(r"[a-z_][a-z0-9_.-]*[a-z_]|[a-z]+_?[0-9]?|[a-z_]+(=|@)[0-9]+|[A-Z]+")
"""Keys that the program chooses; any other (ids, names of files, benchmarks and models) is one of a map."""
MAPS = ("environment.", "files.")
"""What holds versions by package, and files by name."""


def paths(value: Any, path: str = "") -> Iterator[str]:
    """`results.*.accuracy` of every key in JSON; items of lists are `[]`, keys that data chose `*`."""
    if isinstance(value, list):
        for item in value:
            yield from paths(item, f"{path}[]")
    elif isinstance(value, dict):
        for name, inner in value.items():
            free = not NAMED.fullmatch(name) or f"{path}.".endswith(MAPS)
            below = f"{path}.{'*' if free else name}".lstrip(".")
            yield below
            yield from paths(inner, below)


def printed(name: str, *arguments: object) -> Iterator[str]:
    """The keys of what a command prints with --json."""
    done = run_here(*arguments, "--json")
    yield from (f"{name} --json | {path}" for path in paths(_one(done, name)))


def _one(done: Done, name: str) -> Any:
    lines = done.stdout.splitlines()
    assert lines, f"{name} printed nothing: {done.code} {done.stderr}"
    return json.loads(lines[-1])


def written(name: str, folder: Path) -> Iterator[str]:
    """The files below `folder`, and the keys of those that are JSON."""
    for file in sorted(one for one in folder.rglob("*") if one.is_file()):
        shown = re.sub(r"\d{4,}[^/.]*|[0-9a-f]{16,}", "N", str(file.relative_to(folder)))
        yield f"{name} file {shown}"
        if file.suffix in (".json", ".jsonl"):
            text = file.read_text("utf-8")
            values = map(json.loads, text.splitlines()) if file.suffix == ".jsonl" else [json.loads(text)]
            yield from (f"{name} file {shown} | {path}" for value in values for path in paths(value))


def outputs(folder: Path) -> Iterator[str]:
    """Commands that need neither the Prefect engine nor a database."""
    yield from _of_an_index(folder)
    yield from _of_answers(folder)
    yield from _of_a_service(folder / "served", folder / "empty")


def _of_a_service(served: Path, empty: Path) -> Iterator[str]:
    """Of homes where nothing runs; in one of them the files say that a service does."""
    from flows.service.api import AUTH_FILE, SERVICE_FILE

    address = {"api_url": "http://127.0.0.1:9/api", "ui_url": "http://127.0.0.1:9"}
    for file, text in {
        SERVICE_FILE: json.dumps(address),
        AUTH_FILE: "user:word",
        Path("logs/server.log"): "ready",
    }.items():
        (served / file).parent.mkdir(parents=True, exist_ok=True)
        (served / file).write_text(text)
    for home, *command in ((served, "env"), (empty, "down"), (empty, "db", "stop"), (empty, "gc")):
        done = run_apart(
            *command, "--json", TRIVET_HOME=str(home), PREFECT_HOME=str(home / "prefect"), PREFECT_API_URL=""
        )
        yield from (f"{' '.join(command)} --json | {path}" for path in paths(done.json))


def _of_an_index(folder: Path) -> Iterator[str]:
    index, questions, note = publish_texts(folder / "index"), folder / "questions.jsonl", folder / "note.txt"
    questions.write_text(json.dumps(QUESTION) + "\n")
    note.write_text("Delivery takes twelve months.")
    at = ("--index", index)
    yield from written("rag index", index)
    yield from printed("rag text", "rag", "text", note)
    table = folder / "table.md"
    table.write_text("| | As of May 1, 2020 |\n|---|---|\n| Rent | 7 |\n")
    yield from printed("rag numbers", "rag", "numbers", table)
    yield from printed("rag chunks", "rag", "chunks", *at)
    yield from printed("rag search", "rag", "search", "bid price", "--strategy", "bm25", *at)
    yield from printed("rag ask", "rag", "ask", "What is the bid price?", "--strategy", "bm25", *at)
    evaluated = ("rag", "eval", questions, "--strategy", "bm25", "--no-store", "--details", folder / "details.jsonl")
    yield from printed("rag eval", *evaluated, *at)
    yield from (f"rag eval --details | {path}" for path in paths(json.loads((folder / "details.jsonl").read_text())))


def _of_answers(folder: Path) -> Iterator[str]:
    sums, cases, made = write_benchmark(folder / "own"), folder / "cases.jsonl", folder / "results"
    responses = folder / "responses.jsonl"
    responses.write_text("".join(json.dumps({"id": n, "response": rf"\boxed{{{n}}}"}) + "\n" for n in range(3)))
    cases.write_text(json.dumps({"id": 1, "gold": "1", "prediction": "2"}) + "\n")
    yield from printed("eval list", "eval", "list", "--data-dir", SAMPLES / "benchmarks")
    yield from printed("eval new", "eval", "new", "mine", "--dir", folder)
    yield from printed("eval check", "eval", "check", sums)
    yield from printed("eval grade", "eval", "grade", cases)
    out = made / "results.json"
    yield from printed("eval score", "eval", "score", responses, "--task", sums, "--out", out)
    yield from written("eval score", made)
    yield from printed("eval results", "eval", "results", "--path", out)
    yield from printed("eval compare", "eval", "compare", out, out)
    yield from printed("eval show", "eval", "show", out)
    yield from printed("eval show --item", "eval", "show", out, "--item", "0")
    yield from printed("eval export", "eval", "export", out)
    exported = json.loads(_one(run_here("eval", "export", out, "--json"), "eval export")["content"])
    yield from (f"eval export --format lm-eval | {path}" for path in paths(exported))


def runs_of_documents(folder: Path) -> Iterator[str]:
    """An index and a batch, with one document that cannot be read; the database and a backup."""
    documents, index, questions = folder / "documents", folder / "index", folder / "questions.jsonl"
    documents.mkdir()
    (documents / "price.txt").write_text("The bid price is 35,750,000 won. " * 30)
    (documents / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    questions.write_text(json.dumps(QUESTION) + "\n")
    yield from printed("rag index", "rag", "index", documents, "--index", index)
    yield from written("rag index", index)
    yield from printed("rag status", "rag", "status", "--index", index)
    yield from printed("rag batch", "rag", "batch", questions, "--index", index, "--out", folder / "answers.jsonl")
    answers = json.loads((folder / "answers.jsonl").read_text())
    yield from (f"rag batch --out | {path}" for path in paths(answers))
    yield from printed("db upgrade", "db", "upgrade")
    yield from printed("db status", "db", "status")
    yield from printed("backup", "backup", folder / "all.tar")


def runs_of_an_evaluation(folder: Path) -> Iterator[str]:
    """Recorded answers on four kinds of benchmarks."""
    recorded, out = SAMPLES / "recorded" / "model-a", folder / "logs"
    model = ("--model", "replay", "--model_args", f"path={recorded}", "--model_name", "model-a")
    places = ("--data_dir", SAMPLES / "benchmarks", "--output_path", out)
    tasks = ("--tasks", "AIME24,MATH500,GPQADiamond,IFEval")
    yield from printed("eval run --dry-run", "eval", "run", *model, *tasks, *places, "--dry-run")
    yield from printed("eval run", "eval", "run", *model, *tasks, *places)
    yield from written("eval run", out)
    yield from printed("eval results", "eval", "results")
    yield from printed("eval import", "eval", "import", out)


def runs_of_a_night(folder: Path) -> Iterator[str]:
    """The sample suite, and its report made again."""
    suite = shutil.copytree(SAMPLES / "nightly", folder / "suite")
    yield from printed("nightly run", "nightly", "run", suite / "suite.yaml")
    yield from printed("nightly report", "nightly", "report", suite / "suite.yaml")
    yield from printed("nightly incidents", "nightly", "incidents", suite / "suite.yaml")
    yield from written("nightly run", suite / "out")


def runs_of_the_lever(results: Path) -> Iterator[str]:
    """All stages on a small world of digits, and a prediction from its files."""
    yield from printed("lever run", "lever", "run", *SMALL, "--results", results)
    yield from written("lever run", results)
    made = results / "digits"
    vectors = ("--query_emb", made / "cache/query_embeddings.pt", "--cand_emb", made / "cache/candidate_embeddings.pt")
    yield from printed(
        "lever predict", "lever", "predict", made / "model_cpk/v3/grpo_RetrievalSampler.safetensors", *vectors
    )
