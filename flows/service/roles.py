"""What the roles of the server may do: an owner everything, and each of the others only what stands here.

viewer     reads; sees no secrets
operator   reads, starts deployments, retries, pauses, resumes and cancels runs
worker     reads, and does what workers and the runs in them need
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

ROLES = ("viewer", "operator", "worker")
SECRETS = "include_secrets"
"""Parameter of a query that asks for the secrets of blocks."""

ID = r"[^/]+"
READING = re.compile(
    rf"/(?:(?:artifacts|artifacts/latest|automations|block_schemas|block_types|concurrency_limits|deployments|flow_runs"
    rf"|flows|logs|saved_searches|task_runs|task_workers|v2/concurrency_limits|variables|work_pools|work_queues|events"
    rf"|flow_runs/{ID}/input|work_pools/{ID}/queues|work_pools/{ID}/workers)/(?:filter|count|history|paginate|lateness)"
    rf"|events/count-by/{ID}"
    r"|ui/(?:flow_runs/count-task-runs|flow_runs/history|flows/count-deployments|flows/next-runs|schemas/validate"
    r"|task_runs/count|task_runs/dashboard/counts)"
    rf"|(?:work_pools|work_queues)/{ID}/concurrency_status)/?"
)
"""Paths whose POST only reads: the body says what. Documents of blocks are not among them: a body asks for secrets."""
ACTS = {
    "viewer": (),
    "operator": (
        ("POST", rf"/deployments/{ID}/(?:create_flow_run|create_flow_run/bulk|pause_deployment|resume_deployment)"),
        ("POST", rf"/flow_runs/(?:{ID}/set_state|{ID}/resume|bulk_set_state)"),
    ),
    "worker": (
        ("POST", r"/(?:flows|flow_runs|task_runs|logs|artifacts|events)/?"),
        ("POST", rf"/(?:flow_runs|task_runs)/{ID}/set_state"),
        ("PATCH", rf"/(?:flow_runs|task_runs|artifacts)/{ID}"),
        ("PATCH", rf"/flow_runs/{ID}/labels"),
        ("POST", rf"/flow_runs/{ID}/input"),
        ("POST", rf"/deployments/{ID}/create_flow_run"),
        ("POST", r"/deployments/get_scheduled_flow_runs"),
        ("POST", rf"/work_pools/{ID}/(?:get_scheduled_flow_runs|workers/heartbeat)"),
        ("POST", r"/(?:v2/)?concurrency_limits/(?:increment|decrement)(?:-with-lease)?"),
        ("POST", rf"/v2/concurrency_limits/leases/{ID}/renew"),
    ),
}
"""Method and path of what each role may do beside reading."""
SOCKETS = {
    "viewer": r"/(?:events|logs)/out",
    "operator": r"/(?:events|logs)/out",
    "worker": rf"/(?:(?:events|logs)/out|events/in|work_pools/{ID}/workers/connect)",
}
"""WebSockets that each role may open."""


def may(role: str, method: str, path: str, query: str = "") -> bool:
    """Whether a role may make a request; `path` is below `/api`."""
    if any(name == SECRETS for name, _ in parse_qsl(query, keep_blank_values=True)):
        return False
    if method in ("GET", "HEAD") or (method == "POST" and READING.fullmatch(path)):
        return True
    return any(method == its and re.fullmatch(pattern, path) for its, pattern in ACTS[role])


def may_listen(role: str, path: str) -> bool:
    """Whether a role may open a WebSocket."""
    return re.fullmatch(SOCKETS[role], path) is not None
