"""The errors of model backends: which of them are worth a retry, and which end a run.

ModelError
├── TransientModelError   time-out, 429, 5xx, connection lost: worth a retry
│   └── Unreachable       nothing listens at the address of the endpoint, or it hangs up
├── ModelUnavailable      no such model, no endpoint, missing key: stops the run with the remedy
│   ├── NoSuchPath        the endpoint lacks this API
│   └── NoChatTemplate    the model has none, or none of that name
└── RequestRefused        400 and kin: this request will never work
    ├── ContextOverflow   the request is longer than the model's context
    └── ContentRefused    the endpoint's content filter refuses it
"""

from __future__ import annotations


class ModelError(Exception):
    """The root of what a model can raise; the text is a full sentence with the remedy."""


class TransientModelError(ModelError):
    """The request failed for now and may succeed later; `retry_after_s`: the wait that the server asked for, if any."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Unreachable(TransientModelError):
    """Nothing listens at the address of the endpoint, who listens hangs up, or there is no such host."""


class ModelUnavailable(ModelError):
    """There is no such model, endpoint or key, or it cannot be loaded: every request to it will fail."""


class NoSuchPath(ModelUnavailable):
    """The endpoint has no such API; the model may be there all the same."""


class NoChatTemplate(ModelUnavailable):
    """The model has no chat template, or none of that name: no request that goes through it will ever work."""


class RequestRefused(ModelError):
    """This request will never work as it is; others to the same model may."""


class ContentRefused(RequestRefused):
    """The endpoint's filter of content refuses the prompt, or the answer to it."""


class ContextOverflow(RequestRefused):
    """The prompt is longer than the model's context, or leaves no room for what is asked for."""
