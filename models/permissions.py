"""What the runs of a worker may name: the variables of its machine, and code to execute there.

Parameters come from whoever reaches the server; variables and code belong to whoever started the worker. A command in
the user's own shell may name what it likes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container

from models.model_errors import ModelUnavailable

KEYS, CODE = "TRIVET_KEYS", "TRIVET_CODE"
RUN = "PREFECT__FLOW_RUN_ID"
"""Prefect's variable in the process of a run that a worker has started."""
NEVER = re.compile(r"PREFECT_.*|DATABASE_URL|AWS_.*|PG[A-Z]+|TRIVET_.*", re.IGNORECASE)
"""Variables that open server, database and store: no list makes them keys of models."""


class NotPermitted(ModelUnavailable):
    """The parameters of a run name a variable or code that its worker does not offer."""


def read_variable(name: str) -> str | None:
    """Return the value of a variable that a parameter names; None if unset. Raises NotPermitted in a worker's run."""
    if RUN in os.environ and (NEVER.fullmatch(name) or name not in _permitted_variables()):
        raise NotPermitted(
            f"runs of this worker may not read the variable {name}; {KEYS}=NAME,NAME lists those that they may where "
            "the worker is started, in place of the usual names of providers' keys, but never PREFECT_*, DATABASE_URL, "
            "AWS_*, PG* and TRIVET_*"
        )
    return os.environ.get(name)


def _permitted_variables() -> Container[str | None]:
    """Return the names in TRIVET_KEYS, or the usual ones, and those in the file of TRIVET_MODELS."""
    from models.openai import PROVIDERS
    from models.registry import registered_models

    usual = ["OPENAI_BASE_URL", *(name for provider in PROVIDERS.values() for name in provider.variables)]
    listed = [name.strip() for name in os.environ.get(KEYS, "").split(",") if name.strip()]
    return {*(listed or usual), *(entry.api_key_env for entry in registered_models().values())}


def require_code(what: str) -> None:
    """Raise NotPermitted where a run may not execute the code that a parameter names. what: value of the parameter."""
    if RUN in os.environ and os.environ.get(CODE) != "1":
        raise NotPermitted(
            f"runs of this worker execute no code that their parameters name: {what}; where the worker is started, "
            f"{CODE}=1 allows it to everybody who has the server's auth string"
        )
