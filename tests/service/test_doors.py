"""Another account of the machine reads nothing of a home, and no secret becomes a parameter of a run."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from flows.service.api import ApiFailed
from tests.service.conftest import Started
from tests.service.serviced import deploy_doze
from tests.storage.looking import as_root, read_by_another

pytestmark = [pytest.mark.drill, pytest.mark.engine, pytest.mark.postgres, pytest.mark.timeout(600)]

SECRET = "sk-4f0c2b9a7d"


def test_an_api_key_among_parameters_is_refused_with_the_remedy(service: Started, tmp_path: Path) -> None:
    model = {"backend": "openai", "name": "m", "args": {"api_key": SECRET}}
    config = {"model": model, "tasks": [{"task": "MATH500"}], "output_path": str(tmp_path)}
    deployment = service.running.api.get("/deployments/name/evaluation/evaluate")["id"]
    with pytest.raises(ApiFailed) as refused:
        service.running.start(deployment, {"config": config})
    assert "api_key_env" in str(refused.value)
    assert SECRET not in str(refused.value)


@as_root
def test_another_account_reads_nothing_of_a_home_that_has_worked(service: Started, tmp_path: Path) -> None:
    running = service.running
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "one.md").write_text("# One\n\nA page.\n")
    run = running.run(deploy_doze(running.api), tmp_path / "diary", seconds=0)
    running.until(lambda: running.state_of(run) == "Completed", "a worker has worked")
    assert running.trivet("rag", "index", str(documents), "--index", str(tmp_path / "index")).code == 0
    assert read_by_another(running.place.home) == []
    umask = os.umask(0o077)
    os.umask(umask)
    opened = stat.S_IMODE((tmp_path / "index").stat().st_mode)
    assert opened == 0o777 & ~umask, "what was asked for is as open as the user's umask says"
