"""The interface of a store. There is one implementation per database; memory.py is the shortest."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Protocol, TypeVar

from ._call import Call
from ._rules import State

Handle = TypeVar("Handle")
HandleOut = TypeVar("HandleOut", covariant=True)


class Busy(Exception):
    """The database has rolled the transaction back, and the call may be repeated: a deadlock, or
    a lock held too long."""


class Transaction(Protocol[HandleOut]):
    @property
    def handle(self) -> HandleOut:
        """What the function gets: a connection on which the transaction is open."""

    def look(self, call: Call) -> State:
        """Locks the step until the end of the transaction and returns its state."""

    def save(self, call: Call, state: State) -> None:
        """Writes the state of the step."""

    def name(self, call: Call, name: str) -> None:
        """Records that a name belongs to the step."""

    def attempt(self) -> AbstractContextManager[None]:
        """A savepoint: its effects are undone if it ends with an exception."""


class Joined(Protocol):
    """A transaction of the caller, who ends it."""

    def find(self, name: str) -> str | None:
        """The id of the step to which a name belongs; None if there is none. It may lock,
        because the transaction goes on to write."""

    def look(self, step: str) -> State:
        """The state of a step, without a lock."""

    def lock(self, step: str) -> State:
        """Locks the step until the end of the transaction and returns its state."""

    def save(self, step: str, state: State) -> None:
        """Writes the state of the step."""


class Store(Protocol[Handle]):
    def begin(self) -> AbstractContextManager[Transaction[Handle]]:
        """A transaction: committed durably at the end, or rolled back on an exception. May raise
        Busy."""

    def join(self, handle: Handle) -> Joined:
        """The transaction that is open on a connection."""

    def purge(self, older_than: timedelta) -> int:
        """Deletes the steps whose last call is at least this old; returns how many.

        A call that arrives after that is treated as new: keep the steps for months.
        """
