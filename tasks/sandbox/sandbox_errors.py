"""Errors of the sandbox.

SandboxError
├── SandboxUnavailable     generated code cannot be executed here: says what to install
│   └── UnsafeCodeRefused  execution without a sandbox was asked for where that is never allowed
└── LanguageUnavailable    a language that is not known, or that this machine cannot run
"""

from __future__ import annotations


class SandboxError(Exception):
    """The root of the errors of the sandbox; its message is a full sentence with the remedy."""


class SandboxUnavailable(SandboxError):
    """Generated code cannot be executed here without trusting it."""


class UnsafeCodeRefused(SandboxUnavailable):
    """Execution without a sandbox was asked for as root or in a test."""


class LanguageUnavailable(SandboxError):
    """A language is unknown, or this machine cannot run it."""
