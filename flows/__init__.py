"""The flows, and what starts, shows and serves them.

Importing anything of this package sets the environment that Prefect reads, which must happen before Prefect is
imported, and says where steps find their configuration. No other module has an effect when it is imported.
"""

from __future__ import annotations

from importlib import import_module

from flows.running.environment import prepare_environment
from tasks.resources import configured_by

prepare_environment()
# the settings are read when the first step needs them
configured_by(lambda: import_module("flows.running.settings").step_resources())
