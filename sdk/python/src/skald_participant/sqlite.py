"""A store in SQLite. Its transactions run one after the other, as SQLite has one writer at a time."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from ._call import Call, id_of
from ._rules import State, dump, load
from ._store import Busy
from ._table import SQLITE as MIGRATION


class Connection(sqlite3.Connection):
    """A connection whose transaction belongs to the library: a commit by the function would come
    too early."""

    def commit(self) -> None:
        raise sqlite3.ProgrammingError("the library commits, when the function has returned")

    def rollback(self) -> None:
        raise sqlite3.ProgrammingError("raise Refused or NotApplied to roll back")

    def executescript(self, sql_script: str, /) -> sqlite3.Cursor:
        raise sqlite3.ProgrammingError("executescript would commit; use execute")

    def __exit__(self, *_: Any) -> Any:  # the one of sqlite3 would commit
        return False


class SQLiteTransaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @property
    def handle(self) -> sqlite3.Connection:
        return self._connection

    def look(self, call: Call) -> State:
        return load(_read(self._connection, id_of(call)) or "")

    def save(self, call: Call, state: State) -> None:
        _write(self._connection, id_of(call), dump(state))

    def name(self, call: Call, name: str) -> None:
        _write(self._connection, name, id_of(call))

    @contextmanager
    def attempt(self) -> Iterator[None]:
        self._connection.execute("SAVEPOINT skald_participant")
        try:
            yield
        except BaseException as failure:
            if self._connection.in_transaction:  # otherwise SQLite has rolled back, as it does when the disk is full
                self._connection.execute("ROLLBACK TO skald_participant")
                self._connection.execute("RELEASE skald_participant")
            if _locked(failure):
                raise Busy(str(failure)) from failure
            raise
        self._connection.execute("RELEASE skald_participant")


class SQLiteJoined:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def find(self, name: str) -> str | None:
        # A transaction that has read cannot write if another one has written since, so this one
        # writes first.
        self._connection.execute("UPDATE skald_calls SET changed_at = changed_at WHERE id = ?", (name,))
        if not self._connection.in_transaction:
            raise sqlite3.ProgrammingError("the answer is stored in your transaction: begin one")
        return _read(self._connection, name)

    def look(self, step: str) -> State:
        return load(_read(self._connection, step) or "")

    lock = look  # there is one writer at a time

    def save(self, step: str, state: State) -> None:
        _write(self._connection, step, dump(state))


def _read(connection: sqlite3.Connection, row_id: str) -> str | None:
    cursor = connection.cursor()
    cursor.row_factory = None
    row = cursor.execute("SELECT state FROM skald_calls WHERE id = ?", (row_id,)).fetchone()
    return None if row is None else str(row[0])


def _write(connection: sqlite3.Connection, row_id: str, state: str) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO skald_calls (id, state, changed_at) VALUES (?, ?, ?)",
        (row_id, state, int(time.time())),
    )


class SQLiteStore:
    """A store in the database at a path. Every call opens its own connection.

    prepare is called with each new connection, for example for PRAGMA or row_factory.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        timeout: float = 5.0,
        prepare: Callable[[sqlite3.Connection], object] | None = None,
    ) -> None:
        if str(path) in ("", ":memory:"):
            raise ValueError("a database in memory is lost with its connection; use MemoryStore")
        self._path, self._timeout, self._prepare = path, timeout, prepare

    def create_table(self) -> None:
        """Creates the table of the library if it does not exist, as its migration does."""
        with self.begin() as transaction:
            for statement in MIGRATION.split(";\n"):
                transaction.handle.execute(statement)

    @contextmanager
    def begin(self) -> Iterator[SQLiteTransaction]:
        # isolation_level=None: sqlite3 begins no transactions implicitly.
        connection = sqlite3.connect(
            self._path, timeout=self._timeout, isolation_level=None, factory=Connection, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA synchronous = FULL")  # the answer is sent after the data is on disk
            if self._prepare is not None:
                self._prepare(connection)
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield SQLiteTransaction(connection)
                connection.execute("COMMIT")
            except BaseException as failure:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if _locked(failure):
                    raise Busy(str(failure)) from failure
                raise
        finally:
            connection.close()

    def join(self, handle: sqlite3.Connection) -> SQLiteJoined:
        return SQLiteJoined(handle)

    def purge(self, older_than: timedelta) -> int:
        """Deletes the steps whose last new call is at least this old; returns how many."""
        limit = int(time.time() - older_than.total_seconds())
        with self.begin() as transaction:
            return transaction.handle.execute("DELETE FROM skald_calls WHERE changed_at < ?", (limit,)).rowcount


def _locked(failure: BaseException) -> bool:
    return isinstance(failure, sqlite3.OperationalError) and "is locked" in str(failure)
