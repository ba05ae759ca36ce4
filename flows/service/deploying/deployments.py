"""Deployments and their schedules: a flow, where it runs, with what, and when."""

from __future__ import annotations

from typing import Any, NamedTuple

from httpx import HTTPStatusError
from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate, DeploymentUpdate
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule
from prefect.exceptions import ObjectNotFound, ParameterTypeError
from prefect.flows import load_flow_from_entrypoint
from prefect.utilities.callables import parameter_schema
from pydantic import ValidationError

from flows.service.deploying.deployments_folder import Deployment, Folder, Schedule
from flows.service.deploying.server_state import Memory


class Placed(NamedTuple):
    """Deployments that can be run, and those that cannot."""

    names: tuple[str, ...]
    failed: dict[str, str]


class Unfit(ValueError):
    """A deployment that cannot be run as it is: says why, and what to do."""


def place_deployments(client: SyncPrefectClient, told: Folder, memory: Memory) -> Placed:
    """Every deployment of the folder; one that is wrong stops no other."""
    names: list[str] = []
    failed: dict[str, str] = {}
    for one in told.deployments:
        name, before = f"{one.entrypoint.rpartition('.')[2]}/{one.name}", dict(memory.deployed)
        try:
            flow = _flow(one)
            name = f"{flow.name}/{one.name}"
            _place(client, one, flow, memory)
            names.append(name)
        except Unfit as error:
            failed[name] = str(error)
        except HTTPStatusError as error:
            memory.deployed = before  # it was not deployed
            failed[name] = f"the server refuses it: {error.response.text}; {_mended('prefect.yaml')}"
    return Placed(tuple(names), failed)


def _flow(told: Deployment) -> Flow[..., Any]:
    if ":" in told.entrypoint:
        raise Unfit(f"{told.entrypoint} is a path: name the flow as the module has it, `flows.rag.build_index`")
    try:
        return load_flow_from_entrypoint(told.entrypoint, use_placeholder_flow=False)
    except Exception as error:  # whatever an import raises: the others are deployed all the same
        raise Unfit(f"{told.entrypoint} cannot be loaded here ({error}); {_mended('prefect.yaml')}") from error


def _place(client: SyncPrefectClient, told: Deployment, flow: Flow[..., Any], memory: Memory) -> None:
    name = f"{flow.name}/{told.name}"
    refuse(flow, told.parameters, where="prefect.yaml")
    for one in told.schedules:
        _cron(one)  # refused before anything is written
        refuse(flow, told.parameters | one.parameters, where=f"the schedule {one.slug} of prefect.yaml")
    try:
        found = client.read_deployment_by_name(name)
    except ObjectNotFound:
        client.create_deployment(
            flow_id=client.create_flow_from_name(flow.name),
            name=told.name,
            parameters=told.parameters,
            schedules=[_new(one) for one in told.schedules],
            pull_steps=[],
            **_settings(told),
            **_form(told, flow),
        )
        memory.made(
            f"deployment {name}", parameters=told.parameters, settings=_settings(told), schedules=_told(told.schedules)
        )
        return
    _update(client, told, flow, found, memory)
    _place_schedules(client, told, found, memory, name=name)


def _form(told: Deployment, flow: Flow[..., Any], *, enforced: bool = True) -> dict[str, Any]:
    """Settings that follow from the flow's code, and cannot be edited in the UI."""
    schema = parameter_schema(flow).model_dump(mode="json", exclude_unset=True)
    return {"entrypoint": told.entrypoint, "parameter_openapi_schema": schema, "enforce_parameter_schema": enforced}


def _update(
    client: SyncPrefectClient, told: Deployment, flow: Flow[..., Any], found: DeploymentResponse, memory: Memory
) -> None:
    """Write what differs. Raises Unfit if parameters set in the UI do not fit the flow any more."""
    name = f"deployment {flow.name}/{told.name}"
    change: dict[str, Any] = {}
    if memory.differs(name, "parameters", ours=told.parameters, theirs=found.parameters):
        change["parameters"] = told.parameters
    if memory.differs(name, "settings", ours=_settings(told), theirs=_settings_of(found)):
        change |= _settings(told)
    unfit = _unfit(flow, change.get("parameters", found.parameters))
    # where they do not fit, the form shows what the flow takes now, and lets the old values be corrected
    form = _form(told, flow, enforced=unfit is None)
    if differing := {part: ours for part, ours in form.items() if ours != getattr(found, part)}:
        change |= differing
        memory.changed.append(f"{name}: form")
    if change:
        client.update_deployment(found.id, DeploymentUpdate.model_validate(change))
    if unfit:
        raise Unfit(
            f"its parameters were set in the UI, and this version refuses them: {unfit}; correct them on its page and "
            "run `trivet deploy` again, or delete it there to have those of prefect.yaml"
        )


def _settings(told: Deployment) -> dict[str, Any]:
    limit = told.concurrency_limit
    return {
        "description": told.description,
        "tags": list(told.tags),
        "concurrency_limit": limit.limit if limit else None,
        "concurrency_options": {"collision_strategy": limit.collision_strategy} if limit else None,
        "work_pool_name": told.work_pool.name,
        "work_queue_name": told.work_pool.work_queue_name,
        "job_variables": told.work_pool.job_variables,
    }


def _settings_of(found: DeploymentResponse) -> dict[str, Any]:
    limit, options = found.global_concurrency_limit, found.concurrency_options
    return {
        "description": found.description,
        "tags": list(found.tags),
        "concurrency_limit": limit.limit if limit else None,
        "concurrency_options": options.model_dump(mode="json", exclude_none=True) if options and limit else None,
        "work_pool_name": found.work_pool_name,
        "work_queue_name": found.work_queue_name,
        "job_variables": found.job_variables,
    }


def _place_schedules(
    client: SyncPrefectClient, told: Deployment, found: DeploymentResponse, memory: Memory, *, name: str
) -> None:
    """Create or update the schedules of the folder, by slug; whether one is active is left to the UI."""
    slugs = {one.slug for one in told.schedules}
    theirs = {one.slug: one for one in found.schedules if one.slug in slugs}
    has: list[dict[str, Any]] = [
        {"slug": slug, "cron": one.schedule.cron, "timezone": one.schedule.timezone, "parameters": one.parameters}
        for slug, one in sorted(theirs.items(), key=lambda item: str(item[0]))
        if isinstance(one.schedule, CronSchedule)
    ]
    zones = {one["slug"]: one["timezone"] for one in has}
    # the zone of the server stays, unless the folder names one
    ours = tuple(
        one if one.timezone or not zones.get(one.slug) else one.model_copy(update={"timezone": zones[one.slug]})
        for one in told.schedules
    )
    if ours != told.schedules and _told(ours) == has:
        return  # and who named the zone, the folder or the UI, stays known
    if not memory.differs(f"deployment {name}", "schedules", ours=_told(ours), theirs=has):
        return
    for one in ours:
        if one.slug in theirs:
            client.update_deployment_schedule(
                found.id, theirs[one.slug].id, schedule=_cron(one), parameters=one.parameters
            )
        else:
            client.create_deployment_schedules(found.id, [_new(one)])


def _new(told: Schedule) -> DeploymentScheduleCreate:
    return DeploymentScheduleCreate(
        slug=told.slug, schedule=_cron(told), active=told.active, parameters=told.parameters
    )


def _told(schedules: tuple[Schedule, ...]) -> list[dict[str, Any]]:
    return [
        {"slug": one.slug, "cron": one.cron, "timezone": one.timezone or "UTC", "parameters": one.parameters}
        for one in sorted(schedules, key=lambda one: one.slug)
    ]


def _cron(told: Schedule) -> CronSchedule:
    try:
        return CronSchedule(cron=told.cron, timezone=told.timezone or "UTC")
    except ValidationError as error:
        said = error.errors()[0]["msg"]
        raise Unfit(
            f"its schedule {told.slug}: {said}; {_mended('prefect.yaml, or TRIVET_TIMEZONE (Europe/Berlin, UTC …),')}"
        ) from error


def refuse(flow: Flow[..., Any], parameters: dict[str, Any], *, where: str) -> None:
    """Raise Unfit unless the flow takes these parameters."""
    if unfit := _unfit(flow, parameters):
        raise Unfit(f"{flow.name} refuses its parameters: {unfit}; {_mended(where)}")


def _unfit(flow: Flow[..., Any], parameters: dict[str, Any]) -> str | None:
    """Why the flow refuses these parameters, or None; missing ones are asked for when a run starts."""
    if not parameters:
        return None
    try:
        flow.validate_parameters(parameters)
    except (ParameterTypeError, TypeError) as error:
        return " ".join(str(error).split())
    return None


def _mended(where: str) -> str:
    return f"correct {where} and run `trivet deploy` again"
