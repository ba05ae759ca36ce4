"""What runs of a worker may name; that a real worker keeps to it is shown in tests/service."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.backends import open_backend
from models.permissions import CODE, KEYS, RUN, NotPermitted, read_variable, require_code
from models.registry import VARIABLE


@pytest.fixture
def _run(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is that of a run, and has every variable that is asked for."""
    monkeypatch.setenv(RUN, "1")
    for name in (KEYS, CODE, VARIABLE):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("_run")
@pytest.mark.parametrize(
    ("listed", "name", "value"),
    [
        ("", "ANTHROPIC_API_KEY", "v"),
        ("", "HOME_KEY", None),
        ("HOME_KEY, OTHER", "HOME_KEY", "v"),
        ("HOME_KEY", "ANTHROPIC_API_KEY", None),
        *(("", name, None) for name in ("PATH", "PREFECT_API_AUTH_STRING", "DATABASE_URL", "AWS_SECRET_ACCESS_KEY")),
        *((name, name, None) for name in ("PREFECT_SERVER_API_AUTH_STRING", "DATABASE_URL", "AWS_SESSION_TOKEN")),
        *((name, name, None) for name in ("PGPASSWORD", "TRIVET_SERVE_TOKEN", "prefect_api_key")),
    ],
)
def test_a_run_reads_the_keys_that_its_worker_lists(
    listed: str, name: str, value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEYS, listed)
    monkeypatch.setenv(name, "v")
    if value:
        assert read_variable(name) == value
    else:
        with pytest.raises(NotPermitted, match=name):
            read_variable(name)
        monkeypatch.delenv(RUN)
        assert read_variable(name) == "v", "a command in the user's own shell may"


@pytest.mark.usefixtures("_run")
def test_a_run_reads_the_keys_of_the_models_that_its_worker_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models.yaml").write_text("mine: {backend: openai, name: m, api_key_env: TEAM_KEY}\n")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "models.yaml"))
    monkeypatch.setenv("TEAM_KEY", "v")
    assert read_variable("TEAM_KEY") == "v"


@pytest.mark.usefixtures("_run")
@pytest.mark.parametrize(
    ("kind", "args"),
    [("subprocess.Popen", {}), ("hf", {"trust_remote_code": "yes"}), ("vllm", {"trust_remote_code": 1})],
    ids=["class", "hf", "vllm"],
)
def test_a_run_executes_no_code_of_a_model_unless_its_worker_allows_it(
    kind: str, args: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("models.backends.require_vllm", lambda _: None)
    with pytest.raises(NotPermitted, match=f"{CODE}=1"):
        open_backend(kind, args=args, name=str(tmp_path))
    monkeypatch.setenv(CODE, "1")
    require_code("the same")
