"""The flows, and what starts, shows and serves them.

Importing anything of this package sets the environment that Prefect reads, which must happen before Prefect is
imported, and says where steps find their configuration. No other module has an effect when it is imported.
"""

from __future__ import annotations

import sys
from importlib import import_module

# Ctrl-C while the modules of a command load: nothing has begun, and a traceback would tell nobody anything
sys.excepthook = lambda kind, error, at: kind is KeyboardInterrupt or sys.__excepthook__(kind, error, at)

from flows.running.environment import prepare_environment  # noqa: E402
from tasks.resources import configured_by  # noqa: E402

prepare_environment()
# the settings are read when the first step needs them
configured_by(lambda: import_module("flows.running.settings").step_resources())
