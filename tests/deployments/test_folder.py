"""What `deployments/` says: flows that load, parameters that they take, nights that come once."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from flows.running.environment import prepare_environment

prepare_environment()

from prefect import Flow  # noqa: E402
from prefect.flows import load_flow_from_entrypoint  # noqa: E402
from prefect.utilities.callables import parameter_schema  # noqa: E402

from flows.service.api import Api  # noqa: E402
from flows.service.deploy import DeployFailed, deploy, find_deployments_folder  # noqa: E402

FOLDER = find_deployments_folder()
ROOT = FOLDER.parent
DEPLOYMENTS = {one["name"]: one for one in yaml.safe_load((FOLDER / "prefect.yaml").read_text())["deployments"]}
WITH_PARAMETERS = [name for name, one in DEPLOYMENTS.items() if "parameters" in one]
NOWHERE = Api("http://127.0.0.1:9/api", None)
MADE_BY_RUNS = ("index", "out", "output_path", "results")


def flow_of(name: str) -> Flow[..., Any]:
    return load_flow_from_entrypoint(DEPLOYMENTS[name]["entrypoint"], use_placeholder_flow=False)


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_every_entrypoint_is_a_dotted_name_of_a_flow_that_takes_its_parameters(name: str) -> None:
    assert DEPLOYMENTS[name]["entrypoint"].startswith("flows.")
    parameters = DEPLOYMENTS[name].get("parameters")
    assert parameters is None or flow_of(name).validate_parameters(parameters)


@pytest.mark.parametrize("name", WITH_PARAMETERS)
def test_every_file_that_parameters_read_is_in_the_checkout(name: str) -> None:
    def paths(value: Any) -> list[str]:
        if isinstance(value, dict):
            return [path for key, one in value.items() if key not in MADE_BY_RUNS for path in paths(one)]
        return [value] if isinstance(value, str) and "/" in value else []

    assert [path for path in paths(DEPLOYMENTS[name]["parameters"]) if not (FOLDER.parent / path).exists()] == []


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_no_form_asks_for_a_secret_and_every_field_is_described(name: str) -> None:
    schema = parameter_schema(flow_of(name)).model_dump(mode="json")
    assert "password" not in {field.get("format") for field in fields(schema).values()}
    assert [where for where, field in fields(schema).items() if not field.get("description")] == []


def fields(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every field of a form by its place, with the description of its model where it has none of its own."""
    models = schema.get("definitions", {})
    return {
        f"{model}.{name}": models.get(field.get("$ref", "").rpartition("/")[2], {}) | field
        for model, definition in models.items()
        for name, field in definition.get("properties", {}).items()
    }


def test_a_pool_of_the_gpu_has_one_place_and_no_tag_is_limited() -> None:
    limits = yaml.safe_load((FOLDER / "limits.yaml").read_text())
    assert (limits["pools"]["gpu"], limits["slots"].keys()) == (1, {"gpu", "judge", "database"})


def test_nothing_runs_by_itself_until_it_is_switched_on() -> None:
    runs = {
        f"{name}/{one['slug']}": one["active"]
        for name, told in DEPLOYMENTS.items()
        for one in told.get("schedules", [])
    }
    assert runs == {"nightly/nightly": False, "train/weekly": False}


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ("pools: {gpu: [}\n", r"(?s)limits.yaml.*line 1"),
        (
            "pools: {gpu: {concurrency_limit: 1, queues: {default: 1}}}\nslots: {}\n",
            r"limits.yaml: pools.gpu: write a whole number, such as `gpu: 1`",
        ),
        (None, "No such file"),
    ],
    ids=["no YAML", "form of an earlier version", "no file"],
)
def test_a_file_that_cannot_be_deployed_is_named(folder: Path, limits: str | None, said: str) -> None:
    file = folder / "limits.yaml"
    file.unlink() if limits is None else file.write_text(limits)
    with pytest.raises(DeployFailed, match=said):
        deploy(NOWHERE, folder)


def test_an_environment_without_the_folder_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.service.deploy.FOLDER", "nowhere")
    monkeypatch.setattr("flows.service.deploy.SHIPPED", Path("nowhere"))
    with pytest.raises(DeployFailed, match="install trivet again"):
        find_deployments_folder()


def test_pools_are_of_processes_that_start_where_their_worker_did() -> None:
    for name in ("cpu", "gpu"):
        template = json.loads((FOLDER / "pools" / f"{name}.json").read_text())
        assert template["job_configuration"]["working_dir"] == "."


@pytest.mark.parametrize(
    "file", ["constraints.txt", "deployments/constraints-gpu.txt", "deployments/constraints-engines.txt"]
)
def test_what_a_machine_installs_is_what_the_project_allows(file: str) -> None:
    lines = (ROOT / file).read_text().splitlines()
    pins = {
        canonicalize_name(name): version for name, equal, version in (line.partition("==") for line in lines) if equal
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [Requirement(text) for text in project["dependencies"]]
    optional = [Requirement(text) for texts in project["optional-dependencies"].values() for text in texts]

    assert [str(each) for each in needed if canonicalize_name(each.name) not in pins] == []
    pinned = [each for each in (*needed, *optional) if canonicalize_name(each.name) in pins]
    assert [str(each) for each in pinned if pins[canonicalize_name(each.name)] not in each.specifier] == []
