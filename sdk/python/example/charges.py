"""A charge service: POST /charges executes and compensates a step. GET /effects?key=… returns how
often a key took effect, for skald participant certify --effects.

    python charges.py            # on 127.0.0.1:9102, with SQLite in charges.db; PORT and CHARGES_DB change that
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from urllib.parse import parse_qs
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from skald_participant import Call, Participant, Refused, SQLiteStore

store = SQLiteStore(os.environ.get("CHARGES_DB", "charges.db"), timeout=30)
store.create_table()
with store.begin() as transaction:
    transaction.handle.execute("CREATE TABLE IF NOT EXISTS charges (key TEXT NOT NULL, amount INTEGER NOT NULL)")


def amount_of(call: Call) -> int:
    amount = call.payload.get("amount") if isinstance(call.payload, dict) else None
    if not isinstance(amount, int) or not 0 < amount < 10**12:
        raise Refused("AMOUNT_INVALID", "amount must be a positive number of cents", status=422)
    return amount


def charge(call: Call, db: sqlite3.Connection) -> dict[str, int]:
    amount = amount_of(call)
    db.execute("INSERT INTO charges VALUES (?, ?)", (call.key, amount))
    return {"charged": amount}


def refund(call: Call, db: sqlite3.Connection) -> None:
    db.execute("INSERT INTO charges VALUES (?, ?)", (call.key, -amount_of(call)))


secret = os.environ.get("SKALD_SECRET")
participant = Participant(store, charge, refund, secrets=[secret] if secret else None)


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    if environ["PATH_INFO"] == "/charges":
        return participant.wsgi(environ, start_response)
    if environ["PATH_INFO"] != "/effects":
        start_response("404 Not Found", [("Content-Length", "0")])
        return []
    key = parse_qs(environ.get("QUERY_STRING", "")).get("key", [""])[0]
    with store.begin() as transaction:
        found = transaction.handle.execute("SELECT count(*) FROM charges WHERE key = ?", (key,)).fetchone()
    body = json.dumps({"effects": found[0]}).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128


class Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


if __name__ == "__main__":
    port = int(os.environ.get("PORT", "9102"))
    with make_server("127.0.0.1", port, app, Server, Handler) as server:
        print(f"http://127.0.0.1:{server.server_port}/charges", flush=True)
        server.serve_forever()
