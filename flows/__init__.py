"""The flows, and what starts, shows and serves them.

Importing anything of this package sets the environment that Prefect reads, which must happen before Prefect is
imported, and says where steps find their configuration. No other module has an effect when it is imported.
"""

from __future__ import annotations

import sys
from importlib import import_module

if sys.argv[0].rpartition("/")[2] == "trivet":  # Ctrl-C while the command loads: a traceback would tell nobody anything
    sys.excepthook = lambda kind, error, at: kind is KeyboardInterrupt or sys.__excepthook__(kind, error, at)

from flows.running.environment import prepare_environment
from tasks.resources import configured_by

prepare_environment()
# the settings are read when the first step needs them
configured_by(lambda: import_module("flows.running.settings").step_resources())
