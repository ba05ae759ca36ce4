"""What OpenLineage 2-0-2 requires of a RunEvent and of the facets that we send; the client ships no JSON schema.

Written after https://openlineage.io/spec/2-0-2/OpenLineage.json and the facets beside it; stricter in one thing: a
facet that is not listed here is not valid.
"""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator

TEXT = {"type": "string", "minLength": 1}
URI = {"type": "string", "pattern": r"^[a-z][a-z0-9+.-]*:\S+$"}
UUID = {"type": "string", "format": "uuid"}


def of(required: dict[str, Any], /, **optional: Any) -> dict[str, Any]:
    """An object with these fields and no others."""
    known = required | optional
    return {"type": "object", "required": [*required], "properties": known, "additionalProperties": False}


def facets(**listed: dict[str, Any]) -> dict[str, Any]:
    return of({}, **listed)


def facet(name: str, required: dict[str, Any], /, **optional: Any) -> dict[str, Any]:
    where = rf"^https://openlineage\.io/spec/facets/\d+-\d+-\d+/{name}\.json#/\$defs/{name}$"
    return of({"_producer": URI, "_schemaURL": {"type": "string", "pattern": where}} | required, **optional)


NO_FACETS = facets()
PARENT_JOB = of({"namespace": TEXT, "name": TEXT}, facets=NO_FACETS)
PARENT_RUN = of({"runId": UUID}, facets=NO_FACETS)
TAG = of({"key": TEXT, "value": TEXT}, source=TEXT)
RUN_FACETS = facets(
    parent=facet(
        "ParentRunFacet",
        {"run": PARENT_RUN, "job": PARENT_JOB},
        root=of({"run": PARENT_RUN, "job": PARENT_JOB}),
    ),
    processing_engine=facet("ProcessingEngineRunFacet", {"version": TEXT}, name=TEXT),
    errorMessage=facet("ErrorMessageRunFacet", {"message": TEXT, "programmingLanguage": TEXT}),
)
JOB_FACETS = facets(
    jobType=facet(
        "JobTypeJobFacet",
        {"processingType": {"enum": ["BATCH", "STREAMING", "SERVICE"]}, "integration": TEXT},
        jobType=TEXT,
    ),
    tags=facet("TagsJobFacet", {}, tags={"type": "array", "items": TAG}),
)
DATASET_FACETS = facets(version=facet("DatasetVersionDatasetFacet", {"datasetVersion": TEXT}))


def datasets(facets_of_it: str) -> dict[str, Any]:
    listed = of({"namespace": TEXT, "name": TEXT}, facets=DATASET_FACETS, **{facets_of_it: NO_FACETS})
    return {"type": "array", "items": listed}


RUN_EVENT = of(
    {
        "eventTime": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$"},
        "producer": URI,
        "schemaURL": {"const": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"},
        "run": of({"runId": UUID}, facets=RUN_FACETS),
        "job": of({"namespace": TEXT, "name": TEXT}, facets=JOB_FACETS),
    },
    eventType={"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
    inputs=datasets("inputFacets"),
    outputs=datasets("outputFacets"),
)
VALIDATOR = Draft202012Validator(RUN_EVENT, format_checker=Draft202012Validator.FORMAT_CHECKER)


def check(event: dict[str, Any]) -> None:
    """Raises jsonschema.ValidationError."""
    VALIDATOR.validate(event)
