"""A store in PostgreSQL, by psycopg 3."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from ._call import Call, id_of
from ._rules import State, dump, load
from ._store import Busy
from ._table import POSTGRES as MIGRATION

Connection = psycopg.Connection[Any]

# PostgreSQL has undone the transaction: a conflict with another, a deadlock, a lock that was not granted in time.
_UNDONE = ("40001", "40P01", "55P03")


class PostgresTransaction:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def handle(self) -> Connection:
        return self._connection

    def look(self, call: Call) -> State:
        with self._connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
            # It locks the row, also one that another transaction has just inserted, and returns what that has written.
            row = cursor.execute(
                "INSERT INTO skald_calls (id, state, changed_at) VALUES (%s, '', %s)"
                " ON CONFLICT (id) DO UPDATE SET changed_at = excluded.changed_at RETURNING state",
                (id_of(call), int(time.time())),
            ).fetchone()
        assert row is not None
        return load(row[0])

    def save(self, call: Call, state: State) -> None:
        self._connection.execute("UPDATE skald_calls SET state = %s WHERE id = %s", (dump(state), id_of(call)))

    @contextmanager
    def attempt(self) -> Iterator[None]:
        with _busy(), self._connection.transaction():  # a savepoint
            yield


class PostgresStore:
    """A store in the database of a connection string, or of a pool: PostgresStore(pool.connection).

    The function that makes connections is a context manager, as psycopg_pool's connection is; it must return
    connections on which no transaction is open.
    """

    def __init__(self, connect: str | Callable[[], AbstractContextManager[Connection]]) -> None:
        if isinstance(connect, str):
            conninfo = connect
            self._connect: Callable[[], AbstractContextManager[Connection]] = lambda: psycopg.connect(conninfo)
        else:
            self._connect = connect

    def create_table(self) -> None:
        """Creates the table of the library, if it does not exist; the same as its migration."""
        with self.begin() as transaction:
            transaction.handle.execute(MIGRATION.encode())

    @contextmanager
    def begin(self) -> Iterator[PostgresTransaction]:
        try:
            connecting = self._connect()
            connection = connecting.__enter__()
        except psycopg.OperationalError as failure:
            raise Busy(f"no connection: {failure}") from failure
        try:
            if connection.info.transaction_status != TransactionStatus.IDLE:
                # transaction() would be a savepoint in it, and the answer would leave before its commit.
                raise RuntimeError("a transaction is open on the connection that the store was given")
            with _busy(), connection.transaction():
                yield PostgresTransaction(connection)
        except BaseException as failure:
            if not connecting.__exit__(type(failure), failure, failure.__traceback__):
                raise
        else:
            connecting.__exit__(None, None, None)

    def purge(self, older_than: timedelta) -> int:
        """Forgets the steps whose last call is so long ago; returns how many."""
        limit = int(time.time() - older_than.total_seconds())
        with self.begin() as transaction:
            return transaction.handle.execute("DELETE FROM skald_calls WHERE changed_at < %s", (limit,)).rowcount


@contextmanager
def _busy() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as failure:
        if failure.sqlstate in _UNDONE:
            raise Busy(str(failure)) from failure
        raise
