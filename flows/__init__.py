"""The flows, and what starts, shows and serves them.

Importing anything of this package sets the environment that Prefect reads, which must happen before Prefect is
imported, and says where steps find their configuration. No other module has an effect when it is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.running.environment import prepare_environment
from tasks.resources import configured_by

if TYPE_CHECKING:
    from tasks.resources import Resources


def _resources() -> Resources:
    from flows.running.settings import step_resources  # the settings are read when the first step needs them

    return step_resources()


prepare_environment()
configured_by(_resources)
