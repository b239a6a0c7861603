"""The exceptions that a function raises to refuse a call or to ask for a retry."""

from __future__ import annotations

import math
from typing import Any

from ._rules import Answer, refusal


class Refused(Exception):
    """Raise it to refuse a call permanently: whatever the function did is rolled back, and Skald
    compensates.

    The answer is stored: a repeated call is refused in the same way. Only a refused compensation is
    tried again, because Skald repeats it after an operator has fixed the cause.
    """

    def __init__(self, code: str, message: str = "", *, status: int = 409, **details: Any) -> None:
        if not 400 <= status < 500 or status in (408, 425, 429):
            raise ValueError("status must be a permanent refusal: 4xx, but not 408, 425 or 429")
        super().__init__(f"{code}: {message}")
        self.answer = refusal(status, code, message, details)


class NotApplied(Exception):
    """Raise it if nothing was applied and Skald should retry: whatever the function did is
    rolled back."""

    def __init__(self, message: str = "not applied", *, retry_after: float | None = None) -> None:
        super().__init__(message)
        seconds = None if retry_after is None else max(0, math.ceil(retry_after))
        self.answer = Answer(425, refusal(425, "NOT_APPLIED", message).body, seconds)
