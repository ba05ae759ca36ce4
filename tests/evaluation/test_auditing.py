"""Published logs graded again: verdicts reproduced, and why the others differ."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tasks.evaluation.evaluation_errors import DataUnusable, OptionUnusable
from tasks.evaluation.results.audit import Audit, Disagreement, Kind, audit
from tests.command import run_here

SAMPLES = Path(__file__).parents[1] / "samples" / "benchmarks"
SQUARES: dict[str, Any] = {
    "question_id": 9000,
    "question": "Which number is the square of 12?",
    "options": ["24", "121", "122", "124", "132", "142", "144", "148", "164", "169"],
    "answer": "G",
    "answer_index": 6,
    "category": "math",
    "src": "own",
}


def lines(folder: Path, *rows: dict[str, Any], name: str = "log.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def audited(log: Path, task: str, *, data_dir: Path | None = None) -> Audit:
    return audit([log], task, data_dir=data_dir)


def mmlu_pro(*answers: tuple[str, str | None]) -> list[dict[str, Any]]:
    return [SQUARES | {"model_outputs": text, "pred": pred} for text, pred in answers]


ANSWERS = (
    ("12 * 12 = 144. The answer is (G).", "G"),
    ("The answer is (B). No, that is 121; the answer is (G).", "B"),
    ("I picked B at first.\nAnswer: G\nAm I wrong?", "G"),
    ("I cannot say.", "I"),
    ("none of it", None),
)


def test_mmlu_pro_is_reproduced_and_its_first_match_is_an_extraction(tmp_path: Path) -> None:
    log = tmp_path / "model_outputs_own_5shots.json"
    log.write_text(json.dumps(mmlu_pro(*ANSWERS)))
    found = audited(log, "MMLUPro")
    [one] = found.logs
    assert (one.layout, one.answers, one.reproduced, one.unread) == ("MMLU-Pro", 5, 5, 1)
    assert one.published == pytest.approx(2 / 5)
    [case] = found.disagreements
    assert (case.kind, case.published, case.published_answer, case.our_answer) == ("extraction", False, "B", "G")


def test_a_folder_holds_a_log_for_each_model_zipped_or_not_and_other_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "math_result.json").write_text(json.dumps(mmlu_pro(ANSWERS[0])))
    (tmp_path / "math_summary.json").write_text('{"total": {"acc": 1.0}}')
    with zipfile.ZipFile(tmp_path / "outputs.zip", "w") as archive:
        archive.writestr("model_outputs.json", json.dumps(mmlu_pro(*ANSWERS[:2])))
    found = audited(tmp_path, "MMLUPro")
    assert [(Path(one.log).name, one.answers) for one in found.logs] == [
        ("math_result.json", 1),
        ("model_outputs.json", 2),
    ]
    assert any("math_summary.json was left out" in note for note in found.notes)


def test_gsm8k_solutions_are_read_by_their_own_rule_and_compared_as_texts(tmp_path: Path) -> None:
    solutions = {
        "6b": {"is_correct": True, "solution": "900 * 2 = <<900*2=1800>>1800\nA: 1,800"},
        "175b": {"is_correct": False, "solution": "So it is 1800.\nA: 1800.0"},
    }
    found = audited(lines(tmp_path, {"question": "?", "ground_truth": "2 * 900\nA: 1800"} | solutions), "GSM8K")
    assert [(one.group, one.layout, one.reproduced) for one in found.logs] == [("175b", "GSM8K", 1), ("6b", "GSM8K", 1)]
    assert [(case.kind, case.published_answer) for case in found.disagreements] == [("equality", "1800.0")]


def harness(text: str, read: str, *, filtered: str, score: float) -> dict[str, Any]:
    return {
        "doc_id": 0,
        "doc": {"question": "What is 9 * 2?", "answer": "9 * 2 = 18\n#### 18"},
        "target": "9 * 2 = 18\n#### 18",
        "resps": [[text]],
        "filtered_resps": [read],
        "filter": filtered,
        "metrics": ["exact_match"],
        "exact_match": score,
    }


def test_logs_of_the_harness_are_split_by_filter(tmp_path: Path) -> None:
    text = "She makes 18 dollars."
    strict = harness(text, "[invalid]", filtered="strict-match", score=0.0)
    found = audited(lines(tmp_path, strict, harness(text, "18", filtered="flexible-extract", score=1.0)), "GSM8K")
    assert {one.group: (one.reproduced, one.agreed, one.unread) for one in found.logs} == {
        "strict-match": (1, 0, 1),
        "flexible-extract": (1, 1, 0),
    }
    assert [case.kind for case in found.disagreements] == ["extraction"]


def test_each_repeat_of_qwen_math_counts(tmp_path: Path) -> None:
    row = {
        "idx": 3,
        "gt": "1/2",
        "code": [r"\boxed{\frac12}", r"\boxed{2}"],
        "pred": ["0.5", "2"],
        "score": [True, False],
    }
    [one] = audited(lines(tmp_path, row), "MATH500").logs
    assert (one.layout, one.answers, one.agreed) == ("Qwen2.5-Math", 2, 2)


PLAIN = [
    pytest.param({"response": "She makes **18** dollars."}, False, "extraction", id="the source saw no box"),
    pytest.param({"response": r"\boxed{\frac{36}{2}}", "extracted": "36/2"}, False, "equality", id="another form"),
    pytest.param({"response": r"It is 18. So \boxed{18", "extracted": None}, False, "truncation", id="an open box"),
    pytest.param({"response": "**18**", "finish_reason": "length"}, False, "truncation", id="said to be cut off"),
    pytest.param({"id": "0", "response": "The answer is 18.", "gold": "19"}, True, "gold", id="gold"),
]


@pytest.mark.parametrize(("row", "with_data", "kind"), PLAIN)
def test_a_right_answer_that_was_called_wrong_has_its_reason(
    row: dict[str, Any], with_data: bool, kind: Kind, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    lines(data, {"question": "What is 9 * 2?", "answer": "#### 18"}, name="gsm8k_test.jsonl")
    log = lines(tmp_path, {"gold": "18", "verdict": False} | row)
    found = audited(log, "GSM8K", data_dir=data) if with_data else audited(log, "AIME24")
    [case] = found.disagreements
    assert (case.kind, case.published, found.logs[0].disagreements[case.kind].ours_right) == (kind, False, 1)


def test_a_gold_counts_only_for_the_question_that_was_asked(tmp_path: Path) -> None:
    lines(tmp_path, {"question": "What is 9 * 2?", "answer": "#### 18"}, name="gsm8k_test.jsonl")
    other = {"id": "0", "question": "What is 3 + 4?", "response": r"\boxed{7}", "gold": "7", "verdict": True}
    found = audited(lines(tmp_path, other), "GSM8K", data_dir=tmp_path)
    assert found.logs[0].agreed == 1


def test_options_of_a_log_stand_in_the_log_s_order(tmp_path: Path) -> None:
    turned = SQUARES | {
        "options": SQUARES["options"][::-1],
        "answer": "D",
        "model_outputs": "The answer is (D).",
        "pred": "D",
    }
    found = audited(lines(tmp_path, turned), "MMLUPro", data_dir=SAMPLES)
    assert (found.logs[0].agreed, found.disagreements) == (1, ())


def test_a_log_of_inspect_is_read_as_our_export_writes_it(tmp_path: Path) -> None:
    sample = {
        "id": "a",
        "epoch": 1,
        "target": "18",
        "messages": [],
        "output": {"completion": r"\boxed{18}", "choices": [{"stop_reason": "stop"}]},
        "scores": {"accuracy": {"value": "C", "answer": "18"}},
    }
    with zipfile.ZipFile(tmp_path / "run.eval", "w") as archive:
        archive.writestr("header.json", "{}")
        archive.writestr("samples/a_epoch_1.json", json.dumps(sample))
    [one] = audited(tmp_path / "run.eval", "AIME24").logs
    assert (one.layout, one.reproduced, one.agreed) == ("inspect_ai", 1, 1)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"question": "?", "text": "18"}, "a record has the fields question, text"),
        ({"response": "18", "gold": "18", "verdict": "perhaps"}, "line 1: the verdict 'perhaps' is neither"),
        ({"response": ["18"], "gold": "18", "verdict": True}, "response: expected a text or a number, found list"),
        ({"response": "18", "gold": "", "verdict": True}, "there is no gold"),
        ({"response": "18", "gold": "18", "verdict": None}, "no record has a verdict"),
        (harness("", "", filtered="none", score=0.0) | {"resps": [[[-1.5, False]]]}, "holds no text"),
    ],
)
def test_what_is_no_log_is_said(row: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(DataUnusable, match=said):
        audited(lines(tmp_path, row), "GSM8K")


def test_a_task_that_reads_no_answers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionUnusable, match="HumanEval reads no answers"):
        audited(lines(tmp_path, {"response": "x", "gold": "x", "verdict": True}), "HumanEval")


LONG = [
    pytest.param(text, id=text[:6])
    for text in ("answer: ", "A ", "{", r"\boxed{", " ", "1", "$1 ", "**1** ", "answer is (", "\nA: 1", '"answer": ')
]


@pytest.mark.parametrize("task", ["MMLUPro", "GSM8K", "Minerva"])
@pytest.mark.parametrize("part", LONG)
def test_a_megabyte_is_read(part: str, task: str, tmp_path: Path) -> None:
    row = {"response": part * (1_000_000 // len(part)), "gold": "A", "options": ["1", "2"], "verdict": False}
    assert audited(lines(tmp_path, row), task).logs[0].answers == 1


def test_the_command_says_what_differs_and_why(tmp_path: Path) -> None:
    log = lines(tmp_path, *mmlu_pro(*ANSWERS))
    done = run_here("eval", "audit", log, "--task", "MMLUPro")
    assert (done.code, done.stderr) == (0, "")
    assert "extraction: published wrong; they read 'B', we 'G'; gold G" in done.stdout
    whole = run_here("eval", "audit", log, "--task", "MMLUPro", "--extract", "published", "--json").json
    assert [Disagreement.model_validate(one) for one in whole["disagreements"]] == []


def test_a_log_that_is_not_there_is_refused(tmp_path: Path) -> None:
    done = run_here("eval", "audit", tmp_path / "none.jsonl", "--task", "GSM8K")
    assert done.code == 2
    assert "there is no file" in done.stderr


@pytest.mark.shared
@pytest.mark.parametrize(("added", "kinds"), [("", set()), (".0", {"equality"})])
def test_golds_of_gsm8k_as_solutions(added: str, kinds: set[str], shared: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (shared / "benchmarks/gsm8k_test.jsonl").read_text("utf-8").splitlines()]
    solved = [row["answer"].replace("#### ", "A: ") for row in rows]
    told = [{"solution": text + added, "is_correct": not added} for text in solved]
    solutions = zip(rows, solved, told, strict=True)
    log = lines(
        tmp_path, *({"question": row["question"], "ground_truth": text, "m": one} for row, text, one in solutions)
    )
    found = audited(log, "GSM8K", data_dir=shared / "benchmarks")
    assert (found.logs[0].reproduced, found.logs[0].ours["flexible"]) == (1_319, 1.0)
    assert {case.kind for case in found.disagreements} == kinds


def test_samples_of_our_own_runs_are_logs_too(tmp_path: Path) -> None:
    row = {"item": "test/algebra/9001.json", "gold": "7", "extracted": "7", "truncated": False, "reason": "box"}
    right = row | {"score": 1.0, "response": ["first", "So it is \\boxed{7}."]}
    wrong = row | {"score": 0.0, "extracted": None, "response": ["It is 7"]}
    found = audited(lines(tmp_path, right, wrong), "MATH500")
    [one] = found.logs
    assert (one.layout, one.answers, one.reproduced, one.published) == ("Trivet", 2, 2, 0.5)
    assert [case.kind for case in found.disagreements] == ["extraction"]
