"""What the service can refuse.

ServiceError
├── Refused      what was asked for cannot be: a port that is taken, a server that does not know us
├── DidNotStart  a part does not become healthy; the sentence names its log
└── ApiFailed    the server was asked and did not do it
    └── ApiAway  the server does not answer
"""

from __future__ import annotations


class ServiceError(RuntimeError):
    """Root of the errors of `trivet up` and its sisters; the text is a sentence with the remedy."""


class Refused(ServiceError):
    """What was asked for cannot be."""


class DidNotStart(ServiceError):
    """A part does not become healthy."""


class ApiFailed(ServiceError):
    """The server answers, and refuses."""

    def __init__(self, said: str, *, status: int | None = None) -> None:
        super().__init__(said)
        self.status = status


class ApiAway(ApiFailed):
    """The server does not answer."""
