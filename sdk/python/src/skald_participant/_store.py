"""What a store must do. One per database; memory.py is the shortest."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Protocol, TypeVar

from ._call import Call
from ._rules import State

Handle = TypeVar("Handle")
HandleOut = TypeVar("HandleOut", covariant=True)


class Busy(Exception):
    """The database has undone the transaction, and the call may come again: a deadlock, or a lock held too long."""


class Transaction(Protocol[HandleOut]):
    @property
    def handle(self) -> HandleOut:
        """What the function gets: a connection on which the transaction is open."""

    def look(self, call: Call) -> State:
        """Locks the step until the end of the transaction; returns what is known of it."""

    def save(self, call: Call, state: State) -> None:
        """Writes the state of the step."""

    def name(self, call: Call, name: str) -> None:
        """Remembers that a name is one of the step."""

    def attempt(self) -> AbstractContextManager[None]:
        """A savepoint: what happens inside is undone if it ends with an exception."""


class Joined(Protocol):
    """A transaction of the caller, who ends it."""

    def find(self, name: str) -> str | None:
        """The id of the step of a name; None if it is of none. May lock, as the transaction goes on to write."""

    def look(self, step: str) -> State:
        """What is known of a step, without a lock."""

    def lock(self, step: str) -> State:
        """Locks the step until the end of the transaction; returns what is known of it."""

    def save(self, step: str, state: State) -> None:
        """Writes the state of the step."""


class Store(Protocol[Handle]):
    def begin(self) -> AbstractContextManager[Transaction[Handle]]:
        """A transaction: committed at the end, durably, or rolled back at an exception. May raise Busy."""

    def join(self, handle: Handle) -> Joined:
        """The transaction that is open on a connection."""

    def purge(self, older_than: timedelta) -> int:
        """Forgets the steps whose last call is so long ago; returns how many.

        A call that comes after that is taken for a new one: keep them for months.
        """
