"""`trivet deploy`: pools, limits and automations of the folder `deployments/`, then Prefect's `prefect deploy --all`.

Pools and limits that are on the server stay as they were set there, automations and schedules as they were switched;
all else becomes what the files say. A digest of the folder is kept as a Prefect variable, so that `trivet up` deploys
only what is new.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import yaml

from flows.running.settings import settings
from flows.service.api import Api, ApiFailed, ServiceError
from storage.records import Record

FOLDER = "deployments"
SHIPPED = Path("share", "trivet", FOLDER)
"""Place of the folder in an installed wheel, below the data folder of the environment."""
VARIABLE = "trivet_deployed"
"""Prefect variable with the digest of what was deployed last."""
TAG = "trivet"
"""Tag of every deployment of the folder."""
TIMEZONE = "TRIVET_TIMEZONE"
READ_FROM_ENVIRONMENT = (TIMEZONE, "TRIVET_NOTIFY_URL")  # deployed with the files, so part of their digest
SCHEDULES = Path("service", "schedules.json")
"""File below a restored home with what was set in the UI of the other one, until it is deployed here."""
WEBHOOK = "trivet-notify"
"""Prefect block with the address of TRIVET_NOTIFY_URL, which may hold a key."""


class Deployed(Record):
    """Result of a deployment: the deployments that the server has now."""

    deployments: tuple[str, ...]
    """Names of the deployments, `flow/deployment`, sorted."""
    unchanged: bool
    """This folder was the last one that was deployed."""


class DeployFailed(ServiceError):
    """There is no folder, or a file of it cannot be deployed; the message names it, or is what Prefect says."""


def find_deployments_folder() -> Path:
    """Return `deployments/` of the checkout, or the one that came with the wheel. Raises DeployFailed."""
    in_checkout, shipped = Path(__file__).parents[2] / FOLDER, Path(sysconfig.get_path("data")) / SHIPPED
    for folder in (in_checkout, shipped):
        if (folder / "prefect.yaml").is_file():
            return folder
    raise DeployFailed(f"no deployments at {in_checkout} or {shipped}; install trivet again")


def deploy(api: Api, folder: Path | None = None, *, even_unchanged: bool = True) -> Deployed:
    """Deploy `folder`, else that of `find_deployments_folder`, to the server, which PREFECT_API_URL names too.

    even_unchanged: also where it is what was deployed last. Raises DeployFailed, ApiFailed.
    """
    folder = folder or find_deployments_folder()
    files = [folder / "limits.yaml", folder / "automations.yaml", *sorted((folder / "pools").glob("*.json"))]
    limits, automations, *pools = map(_read, files)
    _read(folder / "prefect.yaml")
    for pool, limit in limits["pools"].items():
        if not isinstance(limit, int | None):
            remedy = "`prefect work-queue set-concurrency-limit` limits queues"
            raise DeployFailed(f"{files[0]}: pools.{pool}: write a whole number, such as `{pool}: 1`; {remedy}")
    content = [file.read_bytes() for file in (*files, folder / "prefect.yaml")]
    content += [os.environ.get(name, "").encode() for name in READ_FROM_ENVIRONMENT]
    digest = hashlib.sha256(b"\0".join(content)).hexdigest()
    stored = api.post("/variables/filter", {"variables": {"name": {"any_": [VARIABLE]}}})
    unchanged = any(each["value"] == digest for each in stored)
    if unchanged and not even_unchanged:
        return Deployed(deployments=_deployed(api), unchanged=True)

    for file, template in zip(files[2:], pools, strict=True):
        pool = {"name": file.stem, "type": "process", "base_job_template": template}
        _create(api, "/work_pools/", pool | {"concurrency_limit": limits["pools"].get(file.stem)})
    for slot, limit in limits["slots"].items():
        _create(api, "/v2/concurrency_limits/", {"name": slot, "limit": limit, "active": True})
    _place_automations(api, automations)
    before = _find_deployments(api)
    file = folder / "prefect.yaml"
    command = (sys.executable, "-P", "-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(file))
    process = subprocess.run(
        command,
        cwd=file.parent,  # without modules: Prefect imports those of the working folder before what is installed
        env=os.environ | {TIMEZONE: zone_of_schedules(api)},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if process.returncode:
        lines = [line.strip(" │╭╮╰╯─") for line in (process.stdout + process.stderr).splitlines()]
        last = " ".join([line for line in lines if line][-12:])  # what it says at its end
        raise DeployFailed(f"{file} cannot be deployed: {last}; correct it and run `trivet deploy` again")
    _take_up_schedules(api, before)
    if stored:
        api.send("PATCH", f"/variables/name/{VARIABLE}", {"value": digest})
    else:
        api.post("/variables/", {"name": VARIABLE, "value": digest, "tags": [TAG]})
    return Deployed(deployments=_deployed(api), unchanged=unchanged)


def zone_of_schedules(api: Api) -> str:
    """Return the time zone of the schedules: TRIVET_TIMEZONE, else theirs, else UTC. Raises ApiFailed."""
    schedules = [schedule for deployment in _find_deployments(api) for schedule in deployment["schedules"]]
    zones = (schedule["schedule"].get("timezone") for schedule in schedules)
    return os.environ.get(TIMEZONE) or next(filter(None, zones), "UTC")  # an unset variable would give an empty zone


def _read(file: Path) -> Any:
    try:
        return yaml.safe_load(file.read_text())  # JSON is YAML
    except (OSError, yaml.YAMLError) as error:
        raise DeployFailed(f"{file}: {error}") from error


def _create(api: Api, path: str, body: dict[str, Any]) -> None:
    """Create a pool or a limit unless the server has it already. Raises ApiFailed."""
    try:
        api.post(path, body)
    except ApiFailed as error:
        if error.status != 409:  # the name is taken
            raise


def _place_automations(api: Api, automations: list[dict[str, Any]]) -> None:
    """Create or update each automation, which `prefect automation create --from-file` would create twice.

    Automations that call a webhook are left out where TRIVET_NOTIFY_URL is not set.
    """
    deployed = {automation["name"]: automation for automation in api.post("/automations/filter", {})}
    block = None
    if url := os.environ.get("TRIVET_NOTIFY_URL"):
        from prefect.blocks.webhook import Webhook

        headers = {"Content-Type": "application/json"}
        webhook: Any = Webhook.model_validate({"method": "POST", "url": url, "headers": headers})
        block = str(webhook.save(WEBHOOK, overwrite=True, _sync=True))
    for automation in automations:
        calls = [action for action in automation["actions"] if action["type"] == "call-webhook"]
        if calls and block is None:
            continue
        for action in calls:
            action["block_document_id"] = block
        if earlier := deployed.get(automation["name"]):
            # one that somebody has switched off stays off
            api.send("PUT", f"/automations/{earlier['id']}", automation | {"enabled": earlier["enabled"]})
        else:
            api.post("/automations/", automation)


def _find_deployments(api: Api) -> list[dict[str, Any]]:
    """Return the deployments of the folder by name, as the server has them."""
    deployments = api.post("/deployments/filter", {"deployments": {"tags": {"all_": [TAG]}}})
    return sorted(deployments, key=lambda deployment: deployment["name"])


def pack_schedules(api: Api) -> bytes:
    """Return what was set in the UI, parameters and schedules, as a restored home takes it up. Raises ApiFailed."""
    fields = ("name", "parameters", "schedules")
    return json.dumps([{name: deployment[name] for name in fields} for deployment in _find_deployments(api)]).encode()


def _take_up_schedules(api: Api, before: list[dict[str, Any]]) -> None:
    """Switch schedules as they were in the UI, where what they start is the same.

    In a restored home they and their parameters become as they were in the backup. Raises ApiFailed, DeployFailed.
    """
    file = settings().home / SCHEDULES
    restores = file.exists()
    fields = ("active", "schedule") if restores else ("active",)
    earlier_by_name = {earlier["name"]: earlier for earlier in (_read(file) if restores else before)}
    for deployment in _find_deployments(api):
        earlier, path = earlier_by_name.get(deployment["name"]), f"/deployments/{deployment['id']}"
        if earlier and restores:
            api.send("PATCH", path, {"parameters": earlier["parameters"]})
        elif not earlier or earlier["parameters"] != deployment["parameters"]:
            continue
        by_slug = {schedule["slug"]: schedule for schedule in earlier["schedules"]}
        for schedule in deployment["schedules"]:
            own = by_slug.get(schedule["slug"], schedule)
            if changed := {name: own[name] for name in fields if own[name] != schedule[name]}:
                api.send("PATCH", f"{path}/schedules/{schedule['id']}", changed)
    file.unlink(missing_ok=True)


def _deployed(api: Api) -> tuple[str, ...]:
    flows = {entry["id"]: entry["name"] for entry in api.post("/flows/filter", {})}
    deployments = (each for each in _find_deployments(api) if each["flow_id"] in flows)
    return tuple(sorted(f"{flows[each['flow_id']]}/{each['name']}" for each in deployments))
