"""What `trivet join` has kept: where the server is, and what workers for it need."""

from __future__ import annotations

from pydantic import ValidationError

from flows.service.place import Place
from storage.records import Record

FILE = "joined.json"
"""In the service's folder; mode 0600."""
AUTHORITY_FILE, MODELS_FILE = "joined.pem", "joined-models.yaml"


class Joined(Record):
    """The server that this home works for."""

    api_url: str
    auth: str
    authority: str | None
    """PEM file of what clients of the server trust; None: the system's authorities."""
    store: str
    database_url: str
    models: str | None
    """The file of models, as the server's machine has it."""
    gpu_deployment: str | None

    def variables(self) -> dict[str, str]:
        """The environment of everything that works for the server."""
        told = {
            "PREFECT_API_URL": self.api_url,
            "PREFECT_API_AUTH_STRING": self.auth,
            "PREFECT_API_SSL_CERT_FILE": self.authority,
            "TRIVET_STORE": self.store,
            "DATABASE_URL": self.database_url,
            "TRIVET_MODELS": self.models,
            "TRIVET_GPU_DEPLOYMENT": self.gpu_deployment,
        }
        return {name: value for name, value in told.items() if value}


def joined_of(place: Place) -> Joined | None:
    """The server that was joined; None where none was."""
    try:
        return Joined.model_validate_json((place.folder / FILE).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def leave_server(place: Place) -> None:
    """Forget it, with its certificate and models; what it has made stays in its store."""
    for name in (FILE, AUTHORITY_FILE, MODELS_FILE):
        (place.folder / name).unlink(missing_ok=True)
