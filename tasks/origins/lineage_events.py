"""OpenLineage events of flow runs and of the steps that they ran, with datasets by digest.

Steps are told from the edges that they recorded, as `trivet why` tells them; parameters are left out.
Source: https://openlineage.io/spec/2-0-2/OpenLineage.json
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, TypeVar
from uuid import UUID, uuid5

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    dataset_version_dataset,
    error_message_run,
    job_type_job,
    parent_run,
    processing_engine_run,
    tags_job,
)

from storage.lineage import Ran

MOST_DATASETS = 1_000
"""Datasets of one event; a step with more has several, which a server adds up."""

D = TypeVar("D", InputDataset, OutputDataset)

Outcome = Literal["COMPLETE", "FAIL", "ABORT"]


class Reported(NamedTuple):
    """A flow run, or a step of one, as its events name it."""

    run: str
    """Prefect's ID of the flow run; of a step, that of its key and its run."""
    flow: str
    """Its name, `rag`; of a step `tasks.rag.steps.parse`."""
    namespace: str
    code: str
    """Version of the program."""
    parent: Reported | None = None
    """The flow run that it is a part of."""


def start_of(told: Reported, *, at: datetime) -> RunEvent:
    """The beginning of a flow run."""
    return _event("START", at, run=_run(told), job=_job(told, "FLOW"))


def end_of(told: Reported, outcome: Outcome, *, at: datetime, error: str = "") -> RunEvent:
    """The end of a flow run. error: the name of its type; its message may quote what is nobody else's business."""
    run = _run(told)
    if error:
        message = f"{error}; its message is that of the Prefect flow run {told.run}"
        run.facets = (run.facets or {}) | {"errorMessage": error_message_run.ErrorMessageRunFacet(message, "PYTHON")}
    return _event(outcome, at, run=run, job=_job(told, "FLOW"))


def of_step(told: Reported, ran: Ran, *, store: str) -> Iterator[RunEvent]:
    """Beginning and end of a step of a flow run. store: namespace of its datasets."""
    step = ran.step
    within = Reported(str(uuid5(UUID(told.run), step.key)), step.step, told.namespace, step.code, parent=told)
    run, job = _run(within), _job(within, "STEP", version=step.version)
    yield _event("START", step.at, run=run, job=job)
    ended = step.at + timedelta(seconds=step.seconds)
    data = list(dict.fromkeys((one.made, one.kind, one.digest) for one in ran.edges))
    for first in range(0, max(len(data), 1), MOST_DATASETS):
        some = data[first : first + MOST_DATASETS]
        yield _event(
            "RUNNING" if first + MOST_DATASETS < len(data) else "COMPLETE",
            ended,
            run=run,
            job=job,
            inputs=[_dataset(InputDataset, store, kind, digest) for made, kind, digest in some if not made],
            outputs=[_dataset(OutputDataset, store, kind, digest) for made, kind, digest in some if made],
        )


def _dataset(of: type[D], store: str, kind: str, digest: str) -> D:
    version = dataset_version_dataset.DatasetVersionDatasetFacet(digest)
    return of(store, f"{kind or 'digest'}/{digest}", facets={"version": version})


def _event(
    kind: str,
    at: datetime,
    *,
    run: Run,
    job: Job,
    inputs: list[InputDataset] | None = None,
    outputs: list[OutputDataset] | None = None,
) -> RunEvent:
    return RunEvent(
        eventType=RunState(kind),
        eventTime=at.isoformat(),
        run=run,
        job=job,
        inputs=inputs or [],
        outputs=outputs or [],
    )


def _run(told: Reported) -> Run:
    engine = processing_engine_run.ProcessingEngineRunFacet(version=told.code, name="trivet")
    run = Run(told.run, facets={"processing_engine": engine})
    if told.parent:
        run.facets = (run.facets or {}) | {"parent": _parent(told.parent)}
    return run


def _parent(above: Reported) -> parent_run.ParentRunFacet:
    root = above
    while root.parent:
        root = root.parent
    return parent_run.ParentRunFacet(
        run=parent_run.Run(above.run),
        job=parent_run.Job(above.namespace, above.flow),
        root=parent_run.Root(parent_run.RootRun(root.run), parent_run.RootJob(root.namespace, root.flow)),
    )


def _job(told: Reported, kind: Literal["FLOW", "STEP"], *, version: int | None = None) -> Job:
    job_type = job_type_job.JobTypeJobFacet("BATCH", integration="TRIVET", jobType=kind)
    job = Job(told.namespace, told.flow, facets={"jobType": job_type})
    if version is not None:
        tag = tags_job.TagsJobFacetFields("version", str(version), "TRIVET")
        job.facets = (job.facets or {}) | {"tags": tags_job.TagsJobFacet(tags=[tag])}
    return job
