"""What a grader can refuse.

GradingError
├── RulesUnusable     instructions of an item that cannot be checked: names the kind and the argument
└── TemplateUnusable  a judge prompt that is not a template, or that has a slot nothing fills
"""

from __future__ import annotations


class GradingError(Exception):
    """Root; its text is a full sentence with the remedy."""


class RulesUnusable(GradingError):
    """The instructions of an item are not ones that can be checked."""


class TemplateUnusable(GradingError):
    """A judge prompt that cannot be filled."""
