"""Executes programs that nobody trusts, in a `Sandbox`."""

from __future__ import annotations

from tasks.sandbox.sandbox_pool import Sandbox, shared_sandbox, stop_executing
from tasks.sandbox.sandbox_records import Execution, Limits, Program, Status

__all__ = ["Execution", "Limits", "Program", "Sandbox", "Status", "shared_sandbox", "stop_executing"]
