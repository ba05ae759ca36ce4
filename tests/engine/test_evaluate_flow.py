"""The evaluation as a flow, against a real server: asked once, graded, kept, found again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from models.endpoint_identity import PROBES
from tests.command import Done, run_here
from tests.drills.evaluating import asked, write_sums
from tests.models.server import Reply, Server, error_reply, prompt_of

pytestmark = [pytest.mark.engine, pytest.mark.postgres]

COUNT = 20


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_sums(tmp_path / "data", COUNT)


def evaluate(server: Server, name: str, data: Path, out: Path, *options: object, tasks: str = "MATH500") -> Done:
    arguments = ("--model", "openai", "--model_name", name, "--base_url", server.base_url, "--tasks", tasks)
    return run_here("eval", "run", *arguments, "--data_dir", data, "--output_path", out, "--json", *options)


def results_in(folder: Path) -> dict[str, Any]:
    [file] = folder.glob("*/results_*.json")
    return json.loads(file.read_text())


def test_a_run_is_told_written_and_kept(server: Server, name: str, data: Path, tmp_path: Path) -> None:
    done = evaluate(server, name, data, tmp_path / "out")
    assert done.code == 0, done.stderr
    [result] = done.json["results"]
    assert result["metrics"] == {
        "num_total": 20,
        "num_solved": 18,
        "accuracy": 0.9,
        "accuracy_strict": 0.9,
        "accuracy_flexible": 0.9,
    }
    assert result["counts"]["samples"] == 20
    assert len(asked(server)) == len(server.requests) == 20
    written = results_in(tmp_path / "out")
    assert written["results"] == {"MATH500": result["metrics"]}
    assert written["model_info"]["model_name"] == name
    assert written["model_info"]["total_evaluation_time"] > 0
    [samples] = (tmp_path / "out").glob("*/samples_MATH500_*.jsonl")
    assert len(samples.read_text().splitlines()) == 20
    shown = run_here("eval", "show", done.json["run"]["id"], "--item", "sum/0")
    assert "I add 1000 and 0." in shown.stdout
    assert "1001" in shown.stdout


def test_what_was_evaluated_is_not_evaluated_again(server: Server, name: str, data: Path, tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    first, again = (evaluate(server, name, data, file) for _ in range(2))
    assert again.code == 0, again.stderr
    assert again.json["skipped"] == {"MATH500": first.json["run"]["id"]}
    assert again.json["results"] == []
    assert json.loads(file.read_text())["results"] == {"MATH500": first.json["results"][0]["metrics"]}
    other = evaluate(server, name, data, tmp_path / "out", "--limit", 5)
    assert [result["counts"]["samples"] for result in other.json["results"]] == [5]
    over = evaluate(server, name, data, tmp_path / "out", "--overwrite")
    assert over.json["results"][0]["metrics"] == first.json["results"][0]["metrics"]
    assert len(server.requests) == 20, "nothing is asked twice"


def test_a_dry_run_counts_the_calls_that_the_run_then_makes(
    server: Server, name: str, data: Path, tmp_path: Path
) -> None:
    evaluate(server, name, data, tmp_path / "out", "--limit", 5)
    counted = evaluate(server, name, data, tmp_path / "out", "--dry-run").json
    [calls] = counted["tasks"]
    assert (calls["calls"], calls["stored"], len(asked(server))) == (20, 5, 5)
    done = evaluate(server, name, data, tmp_path / "out").json
    assert (done["run"]["calls"], len(asked(server))) == (15, 20)
    again = evaluate(server, name, data, tmp_path / "out", "--dry-run").json
    assert (again["tasks"], again["skipped"]) == ([], {"MATH500": done["run"]["id"]})


def test_a_model_that_is_away_for_an_item_leaves_it_to_the_next_run(
    server: Server, name: str, data: Path, tmp_path: Path
) -> None:
    server.misbehave = lambda path, body: Reply(503, b"{}") if "What is 1007 +" in prompt_of(body) else None
    options = ("--model_args", "max_retries=0")
    first = evaluate(server, name, data, tmp_path / "out", *options)
    assert first.code == 1
    assert "1 not finished (sum/7" in first.stderr
    assert first.json["results"][0]["counts"]["samples"] == 19
    assert first.json["run"]["status"] == "failed"
    server.misbehave = None
    second = evaluate(server, name, data, tmp_path / "out", *options)
    assert second.code == 0, second.stderr
    assert second.json["results"][0]["metrics"]["num_total"] == 20
    assert asked(server)["What is 1007 + 49?"] == 2
    assert sum(asked(server).values()) == 21


def test_what_got_no_answer_is_counted_as_itself_and_ends_nothing(
    server: Server, name: str, data: Path, tmp_path: Path
) -> None:
    filtered = {"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]}
    replies = {
        "1003": error_reply(400, "maximum context length is 10 tokens", code="context_length_exceeded"),
        "1004": error_reply(400, "The response was filtered", code="content_filter"),
        "1005": error_reply(400, "an odd sign"),
        "1006": Reply(200, json.dumps(filtered).encode()),
    }

    def misbehave(path: str, body: dict[str, Any]) -> Reply | None:
        return next((reply for number, reply in replies.items() if f"What is {number} +" in prompt_of(body)), None)

    server.misbehave = misbehave
    done = evaluate(server, name, data, tmp_path / "out")
    assert done.code == 0, done.stderr
    [result] = done.json["results"]
    metrics, counts = result["metrics"], result["counts"]
    assert (counts["scored"], counts["refused"], counts["too_long"], counts["missing"]) == (16, 3, 1, 0)
    solved = metrics["num_solved"]
    assert metrics["accuracy"] == pytest.approx(solved / 16)
    assert (metrics["coverage"], metrics["bounds"]) == (16 / 20, pytest.approx([solved / 20, (solved + 4) / 20]))
    assert "16 of 20 have a score, and figures are over them; 3 refused, 1 too long (sum/3" in result["notes"][0]
    assert len(server.requests) == 20, "none is tried again"
    [row] = run_here("eval", "results", "--model", name, "--json").json["scores"]
    assert (row["unscored"], row["refused"], row["too long"]) == (0, 3, 1), "as in the run"


def test_a_model_that_refuses_everything_is_an_error(server: Server, name: str, data: Path, tmp_path: Path) -> None:
    server.misbehave = lambda path, body: error_reply(400, "temperature is not supported")
    done = evaluate(server, name, data, tmp_path / "out")
    assert done.code == 1
    assert "temperature is not supported" in done.stderr
    assert len(server.requests) <= 20


def test_other_weights_under_the_same_name_and_address_are_asked_anew(
    server: Server, name: str, data: Path, tmp_path: Path
) -> None:
    first = evaluate(server, name, data, tmp_path / "out")
    assert first.code == 0, first.stderr
    server.probed.clear()
    again = evaluate(server, name, data, tmp_path / "out", "--overwrite")
    assert (len(server.requests), len(server.probed)) == (20, len(PROBES)), "the same weights keep their answers"
    server.weights, server.answer = "second", lambda body: "\\boxed{0}"
    changed = evaluate(server, name, data, tmp_path / "out")
    assert len(server.requests) == 40
    [note] = [note for note in changed.json["notes"] if "weights changed since" in note]
    assert "probes 1, 2, 3, 4 of 4 differ" in note
    revisions = [done.json["run"]["model"]["revision"] for done in (first, again, changed)]
    assert revisions[0] == revisions[1] != revisions[2]
    assert [done.json["results"][0]["metrics"]["num_solved"] for done in (first, changed)] == [18, 0]
    server.weights = "first"
    assert evaluate(server, name, data, tmp_path / "out").json["skipped"]
    assert len(server.requests) == 40, "the first weights are known again"


def test_an_endpoint_that_answers_otherwise_each_time_is_a_suspicion(
    server: Server, name: str, data: Path, tmp_path: Path
) -> None:
    evaluate(server, name, data, tmp_path / "out")
    server.probes = lambda place: str(len(server.probed))
    again = evaluate(server, name, data, tmp_path / "out", "--overwrite")
    assert len(server.requests) == 20
    assert any("its weights are taken for the same" in note for note in again.json["notes"])


def test_a_name_is_trusted_where_the_command_says_so(server: Server, name: str, data: Path, tmp_path: Path) -> None:
    for server.weights in ("first", "second"):
        done = evaluate(server, name, data, tmp_path / "out", "--overwrite", "--assume-same-weights")
        assert (done.code, len(server.requests), server.probed) == (0, 20, [])


def test_repeats_have_seeds_of_their_own(server: Server, name: str, data: Path, tmp_path: Path) -> None:
    options = ("--n_repeat", 3, "--gen_kwargs", "temperature=0.7", "--limit", 2, "--seed", 40)
    done = evaluate(server, name, data, tmp_path / "out", *options)
    [result] = done.json["results"]
    sent = [(request["body"]["seed"], request["body"]["temperature"]) for request in server.requests]
    assert sorted(sent) == [(40, 0.7)] * 2 + [(41, 0.7)] * 2 + [(42, 0.7)] * 2
    assert (result["metrics"]["num_repeat"], result["metrics"]["accuracy_avg"]) == (3, 0.5)
    assert result["metrics"]["accuracy_std_err"] == 0


def test_debug_asks_two_items_and_keeps_them_in_files_with_a_log(
    server: Server, name: str, data: Path, tmp_path: Path
) -> None:
    done = evaluate(server, name, data, tmp_path / "out", "--debug")
    assert done.json["results"][0]["counts"]["samples"] == 2
    assert run_here("eval", "show", name).code == 2
    first = next((tmp_path / "out").rglob("samples_*.jsonl")).read_text().splitlines()[0]
    shown = run_here("eval", "show", tmp_path / "out", "--item", json.loads(first)["item"])
    assert (shown.code, "answer" in shown.stdout) == (0, True)
    assert (tmp_path / "out" / "debug.log").read_text().count(" answer item=") == 2


def test_parts_give_what_one_rank_gives(server: Server, name: str, data: Path, tmp_path: Path) -> None:
    alone = evaluate(server, name, data, tmp_path / "out")
    parts = evaluate(server, name, data, tmp_path / "out", "--data_parallel", 3, "--overwrite")
    [one], [three] = alone.json["results"], parts.json["results"]
    assert one["responses"] == three["responses"]
    assert one["samples"] == three["samples"]


def test_a_budget_stops_the_run_and_keeps_what_was_paid_for(
    server: Server, name: str, data: Path, tmp_path: Path
) -> None:
    done = evaluate(server, name, data, tmp_path / "out", "--set", "spending.max_calls=8")
    assert done.code == 1
    assert "the 8 model calls that were allowed are used up" in done.stderr
    assert done.json["results"][0]["counts"]["samples"] == 8
    assert evaluate(server, name, data, tmp_path / "out").code == 0
    assert len(server.requests) == 20


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--tasks", "MATH50"), 2, "MATH500"),
        (("--tasks", "AIME24"), 2, "aime24.jsonl"),
        (("--tasks", ""), 2, "no tasks"),
        (("--model", "gptx"), 2, "openai"),
        (("--seed", "1,2"), 2, "0,1234,1234,1234"),
        (("--gen_kwargs", "temprature=1"), 2, "temperature"),
        (("--model_args", "a"), 2, "model_args"),
        (("--model_args", "api_key_env=NO_SUCH_VARIABLE"), 2, "NO_SUCH_VARIABLE"),
        (("--save", "paper"), 2, "database"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_bad_input_is_named(
    options: tuple[str, ...], code: int, said: str, server: Server, name: str, data: Path, tmp_path: Path
) -> None:
    done = evaluate(server, name, data, tmp_path / "out", *options)
    assert (done.code, "Traceback" in done.stderr) == (code, False), done.stderr
    assert said in done.stderr
    assert server.requests == []


PORTED = """
from lm_eval.api.instance import Instance
from tasks.evaluation.benchmarks.base import BaseBenchmark

class Ported(BaseBenchmark):
    name = "Ported"

    def generate_responses(self, model):
        prompts = ["What is 1001 + 7?", "What is 1002 + 14?"]
        asked = []
        for number, prompt in enumerate(prompts):
            said = model.apply_chat_template([{"role": "user", "content": prompt}])
            asked.append(Instance("generate_until", {}, (said, {}), number))
        return {"examples": [{"said": said} for said in self.compute(model, asked)]}

    def evaluate_responses(self, results):
        right = ["1008" in results["examples"][0]["said"], "1016" in results["examples"][1]["said"]]
        return {"accuracy": sum(right) / 2, "num_total": 2}
"""


def test_a_benchmark_with_evalchemys_two_methods_runs_as_it_is(
    server: Server, name: str, data: Path, tmp_path: Path
) -> None:
    file = tmp_path / "ported.py"
    file.write_text(PORTED)
    done = evaluate(server, name, data, tmp_path / "out", tasks=f"{file}:Ported")
    assert done.code == 0, done.stderr
    assert done.json["results"][0]["metrics"] == {"accuracy": 1.0, "num_total": 2}
    assert len(server.requests) == 2


def test_a_task_that_fails_does_not_take_the_others_with_it(
    server: Server, name: str, data: Path, tmp_path: Path
) -> None:
    file = tmp_path / "broken.py"
    broken = PORTED.replace('return {"accuracy": sum(right) / 2, "num_total": 2}', "return results[0]")
    file.write_text(broken.replace('"Ported"', '"Broken"'))
    done = evaluate(server, name, data, tmp_path / "out", tasks=f"{file}:Ported,MATH500")
    assert done.code == 1
    assert "Broken was not evaluated" in done.stderr
    assert "Traceback" not in done.stderr
    assert [result["task"] for result in done.json["results"]] == ["MATH500"]
    assert results_in(tmp_path / "out")["results"].keys() == {"MATH500"}


def test_an_address_with_a_password_is_used_and_not_kept(server: Server, name: str, data: Path, tmp_path: Path) -> None:
    address = server.base_url.replace("http://", "http://bob:hunter2@")
    done = evaluate(server, name, data, tmp_path / "out", "--base_url", address, "--limit", 1)
    assert done.code == 0, done.stderr
    assert server.requests[0]["headers"]["authorization"].startswith("Basic ")
    assert "hunter2" not in done.stdout
    assert "hunter2" not in json.dumps(results_in(tmp_path / "out"))
