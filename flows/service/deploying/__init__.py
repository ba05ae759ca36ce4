"""`trivet deploy`: bring the Prefect server to what the folder `deployments/` says; what was set in the UI stays.

read_folder ─► pools ─► slots ─► automations ─► deployments ─► Deployed
(files)        (JSON)   (limits)                (flows are loaded, parameters are checked)
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

from storage.records import Record

FOLDER = "deployments"
SHIPPED = Path("share", "trivet", FOLDER)
"""Below the data folder of the environment: where the wheel puts it."""


class Deployed(Record):
    """What is on the server now, and what was done for it."""

    deployments: tuple[str, ...]
    """`flow/deployment`, those that can be run."""
    pools: tuple[str, ...]
    limits: tuple[str, ...]
    """Global concurrency limits."""
    automations: tuple[str, ...]
    changed: tuple[str, ...]
    """What was made or brought up to date; empty: all was as the folder says."""
    kept: tuple[str, ...]
    """What was set in the UI since the last deploy and differs from the folder: it stays."""
    failed: dict[str, str]
    """Deployments that cannot be run as they are: what is wrong, and what to do."""


class NoFolder(FileNotFoundError):
    """There is no folder of deployments."""


def find_deployments_folder() -> Path:
    """`deployments/` of the checkout, or the one that came with the wheel. Raises NoFolder."""
    beside, shipped = Path(__file__).parents[3] / FOLDER, Path(sysconfig.get_path("data")) / SHIPPED
    for folder in (beside, shipped):
        if (folder / "prefect.yaml").is_file():
            return folder
    raise NoFolder(f"no deployments at {beside} or {shipped}; name a folder with --folder, or install trivet again")


def deploy(folder: Path | None = None) -> Deployed:
    """Deploy `folder` to the server of PREFECT_API_URL, which is set before this. Raises NoFolder, FolderUnusable."""
    from flows.running.environment import prepare_environment

    prepare_environment()
    from prefect.client.orchestration import get_client

    from flows.service.deploying.deployments import place_deployments
    from flows.service.deploying.deployments_folder import read_folder
    from flows.service.deploying.server_state import place_automations, place_pools, place_slots, recalled

    told = read_folder(folder or find_deployments_folder())
    with get_client(sync_client=True) as client, recalled(client) as memory:
        place_pools(client, told, memory)
        place_slots(client, told, memory)
        automations = place_automations(client, told, memory)
        placed = place_deployments(client, told, memory)
    return Deployed(
        deployments=placed.names,
        pools=tuple(told.pools),
        limits=tuple(told.limits.slots),
        automations=automations,
        changed=tuple(memory.changed),
        kept=tuple(memory.kept),
        failed=placed.failed,
    )
