"""`trivet why` on real runs: every hop from an answer and a score to the file that it was read from."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from storage.records import Ref
from tasks.rag import steps
from tasks.resources import artifacts, lineage
from tests.command import run_here

SAMPLES = Path(__file__).parents[1] / "samples"
REPORT = SAMPLES / "documents" / "english" / "CalderRidge_FY2023_Annual_Report.pdf"


def walk(told: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield told
    for source in told["sources"]:
        yield from walk(source)


def why(*arguments: object) -> dict[str, Any]:
    done = run_here("why", *arguments, "--json")
    assert done.code == 0, done.stderr
    [tree] = done.json["origins"]
    return tree


def line(told: dict[str, Any]) -> list[str]:
    """What a tree is made of, where each has one source."""
    return [told["what"], *(line(told["sources"][0]) if told["sources"] else [])]


def answers(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in (folder / "a.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with an index of two documents, and answers to a question in each language."""
    folder = tmp_path_factory.mktemp("why")
    (folder / "docs").mkdir()
    shutil.copy(REPORT, folder / "docs")
    shutil.copy(SAMPLES / "documents" / "reports" / "2024_해든도_통계연보_발췌.pdf", folder / "docs")
    questions = [
        {"id": "en", "question": "What were the net sales of Calder Ridge in fiscal 2023?"},
        {"id": "ko", "question": "해든도 인구는 몇 명인가?"},
    ]
    (folder / "q.jsonl").write_text("".join(json.dumps(one) + "\n" for one in questions), "utf-8")
    done = run_here("rag", "index", folder / "docs", "--index", folder / "idx")
    assert done.code in (0, 3), done.stderr
    done = run_here("rag", "batch", folder / "q.jsonl", "--index", folder / "idx", "--out", folder / "a.jsonl")
    assert done.code == 0, done.stderr
    return folder


def evaluate(
    output: Path, *options: object, answers: Path = SAMPLES / "recorded" / "model-b", task: str = "MATH500"
) -> dict[str, Any]:
    """A run over recorded answers."""
    recorded = ("--model", "replay", "--model_name", "model-b", "--tasks", task, "--overwrite", "--json")
    places = ("--model_args", f"path={answers}", "--data_dir", SAMPLES / "benchmarks")
    done = run_here("eval", "run", *recorded, *places, "--output_path", output, *options)
    assert done.code == 0, done.stderr
    return done.json


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return evaluate(tmp_path_factory.mktemp("logs"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "name", "kind"),
    [("en", REPORT.name, "numbers"), ("ko", "2024_해든도_통계연보_발췌.pdf", "chunks")],
    ids=["a number of a table", "a passage"],
)
def test_each_hop_from_an_answer_to_its_file(asked: Path, question: str, name: str, kind: str) -> None:
    tree = why(asked / "a.jsonl", question)
    [answer] = [
        one for text in (asked / "a.jsonl").read_text().splitlines() if (one := json.loads(text))["id"] == question
    ]

    assert tree["name"] == answer["answer"]
    claim, place = tree["sources"][0], tree["sources"][0]["sources"][0]
    assert claim["what"] == "claim [1]"
    assert place["name"] == f"{name}, page {answer['citations'][0]['page']}"
    assert why(asked / "idx", place["key"])["sources"] == place["sources"]
    [read] = place["sources"]
    assert line(read) == [kind, "figures", "figures", "document-blocks", "document"]
    by_what = {one["what"]: one for one in walk(read)}
    # the file is the one that was read, the blocks and what was cut of them are there
    assert by_what["document"]["key"] == hashlib.sha256((asked / "docs" / name).read_bytes()).hexdigest()
    assert by_what["document"]["name"] == name
    assert artifacts().find("document-blocks", by_what["document-blocks"]["key"])
    assert artifacts().find(kind, read["key"])
    made_by = {what: (one["step"]["step"], one["step"]["version"]) for what, one in by_what.items()}
    assert made_by[kind] == ("tasks.rag.steps.chunk", int(steps.chunk.version or 0))
    assert made_by["document-blocks"] == ("tasks.rag.steps.parse", int(steps.parse.version or 0))
    [index] = [one for one in tree["sources"] if one["what"] == "index"]
    assert index["step"]["step"] == "tasks.rag.steps.publish_index"
    assert not any(one["notes"] for one in walk(read))


@pytest.mark.slow
def test_a_chunk_is_traced_by_its_id(asked: Path) -> None:
    [chunk] = {c["chunk_id"] for answer in answers(asked) for c in answer["citations"] if answer["id"] == "ko"}
    tree = why(asked / "idx", chunk)
    assert (tree["what"], tree["key"], tree["sources"][0]["what"]) == ("chunk", chunk, "chunks")
    refused = run_here("why", asked / "idx", "no-such-chunk")
    assert (refused.code, "has no chunk no-such-chunk" in refused.stderr) == (2, True)


@pytest.mark.slow
def test_each_hop_from_a_number_to_its_file(asked: Path) -> None:
    listed = run_here(
        "rag", "numbers", "--index", asked / "idx", "--document", REPORT.name, "--line", "net sales", "--json"
    )
    number = listed.json["numbers"][0]
    place = ":".join(str(number[field]) for field in ("document", "table", "row", "col"))
    tree = why(asked / "idx", place)
    assert (tree["what"], tree["key"]) == ("cell", place)
    assert tree["name"].startswith(f"{REPORT.name}, page {number['page']}: {number['row_path'][0]}")
    assert tree["name"].endswith(f"{number['shown']} → {number['value']} {number['unit']}")
    made = [one["step"]["step"].rpartition(".")[2] for one in walk(tree) if one["step"]]
    assert (made[0], made[-2:]) == ("chunk", ["parse", "scan"])
    last = [*walk(tree)][-1]
    assert (last["name"], last["key"]) == (REPORT.name, hashlib.sha256(REPORT.read_bytes()).hexdigest())
    assert why(asked / "idx", f"{REPORT.name}:{place.partition(':')[2]}")["sources"] == tree["sources"]
    missing = run_here("why", asked / "idx", f"{REPORT.name}:9999:0:0")
    assert (missing.code, "has no number" in missing.stderr) == (2, True)


@pytest.mark.slow
def test_what_was_collected_is_said_and_not_missed(asked: Path) -> None:
    tree = why(asked / "a.jsonl", "en")
    blocks = next(one for one in walk(tree) if one["what"] == "document-blocks")
    lineage().note_collected([blocks["key"]], at=datetime(2026, 3, 1, tzinfo=UTC))
    again = next(one for one in walk(why(asked / "a.jsonl", "en")) if one["what"] == "document-blocks")
    assert again["notes"] == ["collected on 2026-03-01"]


@pytest.mark.slow
def test_each_hop_from_a_score_to_its_data(evaluated: dict[str, Any]) -> None:
    run = evaluated["run"]["id"]
    [result] = evaluated["results"]

    tree = why(run, "MATH500", "test/algebra/9007.json")

    graded = tree["sources"][0]
    assert line(graded)[:2] == ["samples", "responses"]
    assert graded["key"] in [ref["digest"] for ref in result["samples"]]
    responses = graded["sources"][0]
    assert responses["key"] in [ref["digest"] for ref in result["responses"]]
    assert result["items"]["digest"] in [one["key"] for one in responses["sources"]]
    steps_of = [one["step"]["step"] for one in walk(graded) if one["step"]]
    assert steps_of[:2] == ["tasks.evaluation.steps.score", "tasks.evaluation.steps.recall"]
    assert {one["what"]: one["key"] for one in tree["sources"]}["data"] == result["data"]["checksum"]
    assert {"prompt", "reply"} <= {one["what"] for one in tree["sources"]}
    # the run itself: by the step that wrote it
    whole = why(run)
    assert (whole["what"], whole["key"], whole["sources"][0]["what"]) == ("run", run, "figure")


@pytest.mark.slow
def test_each_hop_from_a_program_to_its_problem(tmp_path: Path) -> None:
    problems = (SAMPLES / "benchmarks" / "HumanEval.jsonl").read_text("utf-8").splitlines()
    problem = json.loads(problems[0])
    program = f"```python\n{problem['prompt']}{problem['canonical_solution']}\n```"
    reply = {"id": problem["task_id"], "response": program}
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "HumanEval.jsonl").write_text(json.dumps(reply), "utf-8")
    run = evaluate(tmp_path, answers=tmp_path / "answers", task="HumanEval")
    [result] = run["results"]
    tree = why(run["run"]["id"], "HumanEval", problem["task_id"])
    assert tree["name"].startswith(f"1.0 for HumanEval {problem['task_id']}")
    graded = tree["sources"][0]
    assert line(graded)[:2] == ["samples", "responses"]
    assert graded["step"]["step"] == "tasks.evaluation.steps.score"
    assert artifacts().path(Ref(**result["responses"][0])).name.startswith(graded["sources"][0]["key"])
    told = {one["what"]: one for one in tree["sources"]}
    assert told["reply"]["name"].startswith("```python from typing import List")
    assert problem["prompt"].split()[0] in told["prompt"]["name"]
    assert told["data"]["key"] == result["data"]["checksum"]


@pytest.mark.slow
def test_dead_ends_are_told(asked: Path) -> None:
    for arguments, said in (
        (["no-such-thing"], "no-such-thing"),
        ([asked / "a.jsonl"], "name one by its id"),
        ([asked / "a.jsonl", "nobody"], "has no answer nobody; its ids are en, ko"),
        ([asked / "idx", "a", "b"], "nothing more can be named here"),
        ([asked / "q.jsonl", "en"], "the answer is not one of this version"),
    ):
        done = run_here("why", *arguments)
        assert done.code in (1, 2), arguments
        assert said in done.stderr, arguments
