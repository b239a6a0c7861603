"""A store in PostgreSQL, using psycopg 3."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import psycopg
from psycopg import generators
from psycopg.errors import DuplicatePreparedStatement, InvalidSqlStatementName
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult

from ._call import Call, id_of
from ._rules import State, dump, load
from ._store import Busy
from ._table import POSTGRES as MIGRATION

if TYPE_CHECKING:
    from typing_extensions import LiteralString  # of Python 3.11

Connection = psycopg.Connection[Any]

# PostgreSQL has rolled the transaction back: a serialization conflict, a deadlock, or a lock that
# was not granted in time.
_UNDONE = ("40001", "40P01", "55P03")


# It locks the row, even one that another transaction has just inserted, and returns what that
# transaction wrote.
_CLAIM = (
    "INSERT INTO skald_calls (id, state, changed_at) VALUES (%s, '', %s)"
    " ON CONFLICT (id) DO UPDATE SET changed_at = excluded.changed_at RETURNING state"
)
_SAVE = "UPDATE skald_calls SET state = %s WHERE id = %s"

# Prepared once per connection, because planning costs more than executing these statements. The Go
# library prepares the same ones, so a pooler may hand its sessions from one library to the other.
_PREPARE = """\
PREPARE skald_claim_1 (text, bigint) AS
INSERT INTO skald_calls (id, state, changed_at) VALUES ($1, '', $2) ON CONFLICT (id) DO NOTHING;
PREPARE skald_save_1 (text, bigint, text) AS UPDATE skald_calls SET state = $1, changed_at = $2 WHERE id = $3"""
_prepared: WeakSet[Connection] = WeakSet()


class PostgresTransaction:
    """A transaction that takes only as many round trips as the function alone.

    The statement that claims the step is sent in the same message as BEGIN, and the one that saves
    its state in the same message as COMMIT. A separate message is needed only to read a step that
    already has a row, because of a repeat or a compensation.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._begun = False
        self._save = ""  # the statement that is sent with COMMIT

    @property
    def handle(self) -> Connection:
        return self._connection

    def look(self, call: Call) -> State:
        step = _literal(id_of(call))
        self._begun = True
        claimed = self._claim(step)
        # psycopg refuses these calls in transactions that it has begun. A commit would separate
        # the effect from the answer.
        for name in ("commit", "rollback"):
            setattr(self._connection, name, _forbidden)
        if claimed:
            return State()
        # Rolling back to a savepoint releases the locks taken after it, so a new savepoint
        # follows.
        query = f"SELECT state FROM skald_calls WHERE id = {step} FOR UPDATE; SAVEPOINT skald_participant"
        row = self._send(query)[0]
        if row.ntuples == 0:
            raise Busy("the step was forgotten at this moment")
        return load((row.get_value(0, 0) or b"").decode(self._connection.info.encoding))

    def _claim(self, step: str) -> bool:
        """Begins the transaction; returns whether the step had no row."""
        level = self._connection.isolation_level
        begin = "BEGIN" if level is None else f"BEGIN ISOLATION LEVEL {level.name.replace('_', ' ')}"
        message = f"{begin}; EXECUTE skald_claim_1({step}, {int(time.time())}); SAVEPOINT skald_participant"
        known = self._connection in _prepared
        if not known:
            self._prepare()
        try:
            results = self._send(message)
        except InvalidSqlStatementName:  # the pooler has given us another session
            if not known:
                raise
            self._end()
            self._prepare()
            results = self._send(message)
        return results[-2].command_tuples == 1

    def _prepare(self) -> None:
        # Not in the same message as BEGIN: the isolation level cannot be set after another
        # statement.
        with contextlib.suppress(DuplicatePreparedStatement):  # by another client of a pooler
            self._send(_PREPARE)
        _prepared.add(self._connection)

    def save(self, call: Call, state: State) -> None:
        values = f"{_literal(dump(state))}, {int(time.time())}, {_literal(id_of(call))}"
        self._save = f"EXECUTE skald_save_1({values}); "

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
                self._save = ""
                self._connection.execute("ROLLBACK TO SAVEPOINT skald_participant")
                raise

    def commit(self) -> None:
        if not self._begun:  # nothing was looked at: psycopg has begun a transaction if there was a statement
            self._connection.commit()
            return
        try:
            with _busy():
                # RELEASE fails if the function has ended the transaction.
                self._send(f"RELEASE SAVEPOINT skald_participant; {self._save}COMMIT")
        finally:
            self._end()

    def rollback(self) -> None:
        if self._begun:
            self._end()
        else:
            self._connection.rollback()

    def _end(self) -> None:
        """Rolls the open transaction back and makes the connection usable for others."""
        for name in ("commit", "rollback"):
            self._connection.__dict__.pop(name, None)
        if self._connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            self._connection.rollback()

    def _send(self, message: str) -> list[PGresult]:
        """Sends statements in one message; raises the exception of the first one that fails. The
        rest is not executed.

        Connection.execute would send a BEGIN of its own and wait for it.
        """
        connection = self._connection
        with connection.lock:
            connection.pgconn.send_query(message.encode(connection.info.encoding))
            results: list[PGresult] = connection.wait(generators.execute(connection.pgconn))
        for result in results:
            if result.status == ExecStatus.FATAL_ERROR:
                raise psycopg.errors.error_from_result(result, connection.info.encoding)
        return results


def _forbidden() -> None:
    raise psycopg.ProgrammingError("a function must not end the transaction of its call")


def _literal(text: str) -> str:
    """Quotes text for SQL, independently of the setting standard_conforming_strings."""
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


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
    """A store in the database of a connection string, or on a pool: PostgresStore(pool.connection).

    The function that opens connections must return a context manager, as psycopg_pool's connection
    does, and its connections must have no open transaction.
    """

    def __init__(self, connect: str | Callable[[], AbstractContextManager[Connection]]) -> None:
        if isinstance(connect, str):
            conninfo = connect
            self._connect: Callable[[], AbstractContextManager[Connection]] = lambda: psycopg.connect(conninfo)
        else:
            self._connect = connect

    def create_table(self) -> None:
        """Creates the table of the library if it does not exist, as its migration does."""
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
                # transaction() would be a savepoint in it, and the answer would be sent before its
                # commit.
                raise RuntimeError("a transaction is open on the connection that the store was given")
            transaction = PostgresTransaction(connection)
            try:
                with _busy():
                    yield transaction
            except BaseException as failure:
                transaction.rollback()
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
        """Deletes the steps whose last call is at least this old; returns how many."""
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
