"""Participants of Skald's sagas: a key takes effect once, and every call with it gets the same
answer. See README.md."""

from ._call import Call
from ._errors import NotApplied, Refused
from ._later import Compensated, Later, NotPending, later
from ._participant import Participant
from ._report import NotDelivered, Report
from ._rules import Answer
from ._signature import parse_secret, verify
from ._store import Busy, Joined, Store, Transaction
from .memory import MemoryStore
from .sqlite import SQLiteStore

__all__ = [
    "Answer", "Busy", "Call", "Compensated", "Joined", "Later", "MemoryStore", "NotApplied", "NotDelivered",
    "NotPending", "Participant", "Refused", "Report", "SQLiteStore", "Store", "Transaction", "later", "parse_secret",
    "verify",
]  # fmt: skip
