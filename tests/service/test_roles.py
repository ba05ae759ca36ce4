"""What each role may do, request by request."""

from __future__ import annotations

import pytest

from flows.service.roles import may, may_listen


@pytest.mark.parametrize(
    ("method", "path", "roles"),
    [
        ("GET", "/flow_runs/1", {"viewer", "operator", "worker"}),
        ("POST", "/flow_runs/filter", {"viewer", "operator", "worker"}),
        ("POST", "/events/count-by/day", {"viewer", "operator", "worker"}),
        ("POST", "/deployments/1/create_flow_run", {"operator", "worker"}),
        ("POST", "/flow_runs/1/set_state", {"operator", "worker"}),
        ("POST", "/flow_runs/1/resume", {"operator"}),
        ("POST", "/deployments/1/pause_deployment", {"operator"}),
        ("POST", "/task_runs/", {"worker"}),
        ("POST", "/logs/", {"worker"}),
        ("POST", "/work_pools/cpu/workers/heartbeat", {"worker"}),
        ("POST", "/work_pools/cpu/get_scheduled_flow_runs", {"worker"}),
        ("POST", "/block_documents/filter", set()),
        ("POST", "/deployments/", set()),
        ("PATCH", "/deployments/1", set()),
        ("PATCH", "/work_pools/cpu", set()),
        ("POST", "/automations/", set()),
        ("DELETE", "/flow_runs/1", set()),
        ("POST", "/flow_runs/bulk_delete", set()),
        ("DELETE", "/admin/storage", set()),
        ("POST", "/flow_runs/1/set_state/filter", set()),
        ("POST", "/deployments/1/filter", set()),
    ],
)
def test_what_is_not_named_is_refused(method: str, path: str, roles: set[str]) -> None:
    assert {role for role in ("viewer", "operator", "worker") if may(role, method, path)} == roles


@pytest.mark.parametrize("query", ["include_secrets=true", "a=b&include%5Fsecrets=1", "include_secrets"])
def test_no_role_sees_secrets(query: str) -> None:
    path = "/block_types/slug/secret/block_documents/name/mine"
    assert may("viewer", "GET", path)
    assert not any(may(role, "GET", path, query) for role in ("viewer", "operator", "worker"))


def test_only_workers_send_events() -> None:
    assert [role for role in ("viewer", "operator", "worker") if may_listen(role, "/events/in")] == ["worker"]
