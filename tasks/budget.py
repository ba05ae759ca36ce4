"""The budget of a run's model calls: tokens, prices, and the limit at which it stops asking."""

from __future__ import annotations

import threading
from typing import NamedTuple, Self

from pydantic import Field, model_validator

from storage.records import Record


class Tokens(NamedTuple):
    """Number of prompt and answer tokens of one request."""

    prompt: int
    answer: int


class Prices(Record):
    """Prices of a model per million tokens, in the currency of the cost limit."""

    prompt: float = Field(ge=0)
    """Price of a million prompt tokens."""
    answer: float = Field(ge=0)
    """Price of a million completion tokens."""

    def cost(self, tokens: Tokens) -> float:
        """Return the cost of a request of so many tokens, in the currency of the prices."""
        return (tokens.prompt * self.prompt + tokens.answer * self.answer) / 1e6


class Spending(Record):
    """When a run stops asking; None is no limit."""

    max_calls: int | None = Field(default=None, ge=0)
    """Stop after this many model requests; recalled answers do not count. Unset: no limit."""
    max_cost: float | None = Field(default=None, ge=0)
    """Stop before more than this is spent, in the currency of the prices. Unset: no limit."""
    prices: Prices | None = None
    """Price per million prompt and answer tokens. Unset: that of the model in the file that TRIVET_MODELS names."""

    @model_validator(mode="after")
    def _has_prices(self) -> Self:
        """Return the limits. Raises ValueError for a limit on the cost without prices."""
        if self.max_cost is not None and self.prices is None:
            raise ValueError(
                "a limit on the cost needs the model's prices per million tokens: --set spending.prices="
                "'{prompt: 0.15, answer: 0.6}', or `price` of the model in the file that TRIVET_MODELS names"
            )
        return self


class BudgetSpent(Exception):
    """The next request would go beyond what the user allowed; its text names the limit."""


class Budget:
    """Most requests and most money, shared by all threads that ask; what the response store knows costs nothing."""

    def __init__(self, limits: Spending | None = None) -> None:
        """limits: None is no limit."""
        self.calls = 0
        """Number of requests that were begun."""
        self.cost = 0.0
        """Cost of the requests so far; those under way count with what they may cost."""
        self._limits = limits or Spending()
        self.priced = self._limits.prices is not None
        self._prices = self._limits.prices or Prices(prompt=0, answer=0)
        self._lock = threading.Lock()

    def take(self, expected: Tokens) -> None:
        """Reserve a request of so many tokens. Raises BudgetSpent, and then reserves nothing."""
        cost = self._prices.cost(expected)
        with self._lock:
            max_calls, max_cost = self._limits.max_calls, self._limits.max_cost
            if max_calls is not None and self.calls >= max_calls:
                raise BudgetSpent(f"the {max_calls} model calls that were allowed are used up")
            if max_cost is not None and self.cost + cost > max_cost:
                raise BudgetSpent(f"{self.cost:.4g} of {max_cost:g} is spent and the next call may cost {cost:.2g}")
            self.calls += 1
            self.cost += cost  # threads that ask meanwhile see it as spent

    def settle(self, expected: Tokens, used: Tokens) -> None:
        """Replace the cost reserved for a request by the cost of the tokens that it used."""
        with self._lock:
            self.cost += self._prices.cost(used) - self._prices.cost(expected)
