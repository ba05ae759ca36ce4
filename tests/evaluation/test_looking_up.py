"""Everything that is known of one graded response, wherever its texts are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import JsonValue

from storage.artifacts import Artifacts
from storage.responses import StoredResponse
from storage.storage_errors import DatabaseUnavailable
from tasks.evaluation.results.finding_runs import FoundRun, find_run, look_up
from tasks.evaluation.results.result_rows import write_files
from tests.evaluation.reports import KEY, SAMPLES, report, task_result, with_artifacts

JUDGE_KEY = SAMPLES[0].keys[1]


class Kept:
    """Two answers of the response store."""

    def many(self, keys: Sequence[str]) -> dict[str, StoredResponse]:
        asked: JsonValue = {
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Stored?"}]}],
            "temperature": 0.7,
        }
        said: JsonValue = {"text": "Stored.", "finish_reason": "stop", "sent": {"temperature": 0.7}}
        one = StoredResponse(backend="openai", model="m", request=asked, response=said, latency_s=1.5)
        return {key: one for key in keys if key in (KEY, JUDGE_KEY)}


class Away:
    """A database that cannot be reached."""

    def many(self, keys: Sequence[str]) -> dict[str, StoredResponse]:
        raise DatabaseUnavailable("nobody there")


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    return Artifacts(tmp_path / "store")


def test_texts_come_from_the_artifacts(artifacts: Artifacts) -> None:
    made = report(with_artifacts(task_result(), artifacts))
    looked = look_up(FoundRun(made), "Sums", SAMPLES[0], artifacts, Kept().many)
    assert (looked.system, looked.prompts, looked.replies) == ("Be short.", ("What is 1 + 3?",), ("It is 4.",))
    assert [(call.by, call.key) for call in looked.calls] == [("model", KEY), ("judge", JUDGE_KEY)]
    assert looked.calls[0].sent == {"temperature": 0.7}
    assert looked.calls[0].prompt[0].text == "Stored?"


def test_without_artifacts_they_come_from_beside_the_results_file(artifacts: Artifacts, tmp_path: Path) -> None:
    made = report(with_artifacts(task_result(), artifacts))
    path = write_files(made, artifacts, output_path=tmp_path / "out")
    looked = look_up(find_run(str(path), None), "Sums", SAMPLES[3], Artifacts(tmp_path / "other"), Away().many)
    assert (looked.prompts, looked.replies, looked.notes) == (("What is 2 + 3?",), ("It is 5\x00.",), ())


def test_else_they_come_from_the_response_store(artifacts: Artifacts) -> None:
    looked = look_up(FoundRun(report()), "Sums", SAMPLES[0], artifacts, Kept().many)
    assert (looked.prompts, looked.replies) == (("Stored?",), ("Stored.",))


def test_what_nobody_kept_is_said(artifacts: Artifacts) -> None:
    looked = look_up(FoundRun(report()), "Sums", SAMPLES[0], artifacts, Away().many)
    assert looked.sample == SAMPLES[0]
    assert looked.notes == (
        "the model calls are not shown: nobody there",
        "neither prompt nor answer has been kept of it",
    )
