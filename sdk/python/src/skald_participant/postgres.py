"""A store in PostgreSQL, by psycopg 3."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.pq import TransactionStatus

from ._call import Call, id_of
from ._rules import State, dump, load
from ._store import Busy
from ._table import POSTGRES as MIGRATION

if TYPE_CHECKING:
    from typing_extensions import LiteralString  # of Python 3.11

Connection = psycopg.Connection[Any]

# PostgreSQL has undone the transaction: a conflict with another, a deadlock, a lock that was not granted in time.
_UNDONE = ("40001", "40P01", "55P03")


# It locks the row, also one that another transaction has just inserted, and returns what that wrote.
_CLAIM = (
    "INSERT INTO skald_calls (id, state, changed_at) VALUES (%s, '', %s)"
    " ON CONFLICT (id) DO UPDATE SET changed_at = excluded.changed_at RETURNING state"
)
_SAVE = "UPDATE skald_calls SET state = %s WHERE id = %s"


class PostgresTransaction:
    """A transaction that takes as many round trips as the function alone.

    What comes before the function is sent with BEGIN, and the state with COMMIT: in libpq's pipeline mode, in which the
    function itself is not called.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # connection.transaction() would stay in pipeline mode while the function runs.
        self._transaction = psycopg.Transaction(connection)
        self._begun = False
        self._state: tuple[str, str] | None = None  # what is saved with COMMIT, and the row

    @property
    def handle(self) -> Connection:
        return self._connection

    def look(self, call: Call) -> State:
        with self._connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
            with self._together():
                self._transaction.__enter__()
                self._begun = True
                cursor.execute(_CLAIM, (id_of(call), int(time.time())))
                self._connection.execute("SAVEPOINT skald_participant")
            row = cursor.fetchone()
        assert row is not None
        return load(row[0])

    def save(self, call: Call, state: State) -> None:
        self._state = (dump(state), id_of(call))

    def name(self, call: Call, name: str) -> None:
        self._connection.execute(
            "INSERT INTO skald_calls (id, state, changed_at) VALUES (%s, %s, %s)"
            " ON CONFLICT (id) DO UPDATE SET changed_at = excluded.changed_at",
            (name, id_of(call), int(time.time())),
        )

    @contextmanager
    def attempt(self) -> Iterator[None]:
        with _busy():
            try:
                yield
                status = self._connection.info.transaction_status
                if status != TransactionStatus.INTRANS:
                    raise psycopg.ProgrammingError(f"the function has left the transaction {status.name}")
            except BaseException:
                self._state = None
                self._connection.execute("ROLLBACK TO SAVEPOINT skald_participant")
                raise

    def commit(self) -> None:
        if not self._begun:  # nothing was looked at: psycopg has begun a transaction if there was a statement
            self._connection.commit()
            return
        try:
            with _busy(), self._together():
                if self._state is not None:
                    self._connection.execute(_SAVE, self._state)
                self._transaction.__exit__(None, None, None)
        except BaseException:
            if self._connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
                self._connection.rollback()
            raise

    def rollback(self, failure: BaseException) -> None:
        if self._begun:
            self._transaction.__exit__(type(failure), failure, failure.__traceback__)
        else:
            self._connection.rollback()

    def _together(self) -> AbstractContextManager[object]:
        return self._connection.pipeline() if psycopg.Pipeline.is_supported() else nullcontext()


class PostgresJoined:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find(self, name: str) -> str | None:
        return self._row("SELECT state FROM skald_calls WHERE id = %s", name)

    def look(self, step: str) -> State:
        return load(self._row("SELECT state FROM skald_calls WHERE id = %s", step) or "")

    def lock(self, step: str) -> State:
        state = load(self._row(_CLAIM, step, int(time.time())) or "")
        if self._connection.info.transaction_status != TransactionStatus.INTRANS:
            raise psycopg.ProgrammingError("the answer is stored in your transaction: begin one")
        return state

    def save(self, step: str, state: State) -> None:
        self._connection.execute(_SAVE, (dump(state), step))

    def _row(self, query: LiteralString, *values: object) -> str | None:
        with self._connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
            row = cursor.execute(query, values).fetchone()
        return None if row is None else str(row[0])


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
            transaction = PostgresTransaction(connection)
            try:
                with _busy():
                    yield transaction
            except BaseException as failure:
                transaction.rollback(failure)
                raise
            transaction.commit()
        except BaseException as failure:
            if not connecting.__exit__(type(failure), failure, failure.__traceback__):
                raise
        else:
            connecting.__exit__(None, None, None)

    def join(self, handle: Connection) -> PostgresJoined:
        return PostgresJoined(handle)

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
