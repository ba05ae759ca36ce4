"""The three families of errors that an evaluation raises on purpose: its own, those of graders, of the sandbox.

Apart from `evaluation_errors`, which commands import before they know whether a sandbox will be needed.
"""

from __future__ import annotations

from tasks.evaluation.evaluation_errors import EvaluationError
from tasks.grading.grading_records import GradingError
from tasks.sandbox.sandbox_errors import SandboxError

EXPECTED_ERRORS = (EvaluationError, GradingError, SandboxError)
"""The text of each is a full sentence with the remedy."""
