"""`trivet doctor --gpu`: where there is no GPU it says so line by line; what it tries there is tried here on a CPU."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner, Result

from flows.cli import app
from flows.service import gpu_doctor
from flows.service.gpu_doctor import examine_gpu, try_all
from storage.vectors import count_gpus

SLEEP = ["sleep", "7133"]
NAMES = ["torch", "vllm", "faiss", "generation", "index build"]


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *arguments])


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_each_line_says_what_is_missing_and_the_exit_code_is_1() -> None:
    done = doctor("--gpu", "--json")
    told: dict[str, Any] = json.loads(done.stdout)
    checks = {check["name"]: check for check in told["checks"]}
    assert (done.exit_code, told["ok"], list(checks)) == (1, False, NAMES)
    assert {check["status"] for check in checks.values()} == {"missing"}
    assert [check for check in told["checks"] if check["status"] != "ok" and not check["remedy"]] == []
    assert checks["torch"]["detail"].endswith("sees no GPU")
    assert checks["index build"]["detail"] == "not run: torch sees no GPU"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--gpu", "--sandbox"], "one at a time"),
        (["--model", "."], "add --gpu"),
        (["--gpu", "--model", "/nowhere"], "does not exist"),
    ],
    ids=["sandbox too", "model alone", "no such model"],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], said: str) -> None:
    done = doctor(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.replace("│", " ").split())


def test_a_child_that_aborts_leaves_what_it_tried_and_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    check = '{"name": "torch", "status": "ok", "detail": "2.13"}'
    aborts = f"import os, sys; print({check!r}, flush=True); print('CUDA error 802', file=sys.stderr); os.abort()"
    monkeypatch.setattr(gpu_doctor, "COMMAND", (sys.executable, "-c", aborts))
    report = examine_gpu()
    assert [check.status for check in report.checks] == ["ok", *["missing"] * 4]
    assert report.checks[1].detail == "CUDA error 802 (ended by SIGABRT)"


def test_a_child_that_hangs_is_ended_with_what_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = "import subprocess, sys, time; subprocess.Popen(['sleep', '7133']); time.sleep(77)"
    monkeypatch.setattr(gpu_doctor, "COMMAND", (sys.executable, "-c", hangs))
    monkeypatch.setattr(gpu_doctor, "MOST_S", 1)
    assert examine_gpu().checks[0].detail == "it said nothing (ended by SIGKILL)"
    deadline = time.monotonic() + 20  # a busy machine takes a moment to end what was killed
    while (left := _sleeping()) - {psutil.STATUS_ZOMBIE} and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left <= {psutil.STATUS_ZOMBIE}, "a process that ended may wait for its parent"


def _sleeping() -> set[str]:
    return {each.info["status"] for each in psutil.process_iter(["cmdline", "status"]) if each.info["cmdline"] == SLEEP}


def test_everything_is_tried_here_on_a_cpu() -> None:
    checks = {check.name: check for check in try_all(device="cpu")}
    assert list(checks) == NAMES
    assert checks["generation"].detail == "16 tokens by a tiny model of random weights"
    assert checks["index build"].status == "ok"


@pytest.mark.gpu
def test_a_gpu_worker_has_all_that_it_needs() -> None:
    if not count_gpus():
        pytest.skip("FAISS sees no GPU here")
    done = doctor("--gpu", "--json")
    assert (done.exit_code, {one["name"] for one in json.loads(done.stdout)["checks"]}) == (0, set(NAMES))
