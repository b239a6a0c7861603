"""Participants of Skald's sagas: the same key gets the same answer, and is done once. See README.md."""

from ._call import Call
from ._participant import NotApplied, Participant, Refused
from ._rules import Answer
from ._signature import parse_secret, verify
from ._store import Busy, Store, Transaction
from .memory import MemoryStore
from .sqlite import SQLiteStore

__all__ = [
    "Answer", "Busy", "Call", "MemoryStore", "NotApplied", "Participant", "Refused", "SQLiteStore", "Store",
    "Transaction", "parse_secret", "verify",
]  # fmt: skip
