"""The cost of the library: the same function with and without it, alternating, on the PostgreSQL at
DATABASE_URL.

make bench-sdk runs it. Like most functions, this one reads, updates and inserts. It is served by
gunicorn with one worker, as a bare WSGI application and in Flask. The result is only meaningful
with synchronous writes to the disk and idle cores.
"""

from __future__ import annotations

import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time

CALLS = int(os.environ.get("CALLS", "2500"))


def charge(key, amount, db):
    account = len(key) % 1000
    balance = db.execute("SELECT balance FROM cost_accounts WHERE id = %s FOR UPDATE", (account,)).fetchone()[0]
    db.execute("UPDATE cost_accounts SET balance = %s WHERE id = %s", (balance - amount, account))
    db.execute("INSERT INTO cost_effects VALUES (%s)", (key,))
    return {"charge_id": key}


def application():
    """The application that gunicorn serves."""
    from flask import Flask, jsonify, request
    from psycopg_pool import ConnectionPool
    from skald_participant import Participant
    from skald_participant.postgres import PostgresStore

    pool = ConnectionPool(os.environ["DATABASE_URL"], min_size=1, max_size=1, open=True)
    library = Participant(PostgresStore(pool.connection), lambda call, db: charge(call.key, call.payload["amount"], db))

    def bare(environ, start_response):
        call = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        with pool.connection() as db:
            output = charge(environ["HTTP_IDEMPOTENCY_KEY"], call["payload"]["amount"], db)
        body = json.dumps(output).encode()
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]

    flask = Flask("cost")

    @flask.post("/flask")
    def in_flask():
        with pool.connection() as db:
            return jsonify(charge(request.headers["Idempotency-Key"], request.get_json()["payload"]["amount"], db))

    apps = {"/with": library.wsgi, "/bare": bare, "/flask": flask}
    return lambda environ, start_response: apps[environ["PATH_INFO"]](environ, start_response)


def call(sock, path, saga):
    body = json.dumps({"saga_id": saga, "step": "x", "action": "execute", "payload": {"amount": 5}, "outputs": {}})
    headers = {"Host": "cost", "Idempotency-Key": f"{saga}/x/execute", "Content-Length": len(body), "X-Saga-Id": saga,
               "X-Saga-Step": "x", "X-Saga-Action": "execute", "Content-Type": "application/json"}  # fmt: skip
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    begin = time.perf_counter()
    sock.sendall(f"POST /{path} HTTP/1.1\r\n{head}\r\n{body}".encode())
    answer = b""
    while not answer.rstrip().endswith(b"}"):
        piece = sock.recv(65536)
        assert piece, answer
        answer += piece
    took = time.perf_counter() - begin
    assert answer.startswith(b"HTTP/1.1 200"), answer
    return took


def middle(times):
    """The mean of the middle half, so that a pause of the machine in one round does not decide
    the result."""
    times = sorted(times)
    return statistics.mean(times[len(times) // 4 : max(len(times) // 4 + 1, len(times) * 3 // 4)]) * 1e6


def main():
    import psycopg
    from skald_participant.postgres import MIGRATION

    with psycopg.connect(os.environ["DATABASE_URL"]) as db:
        db.execute("DROP TABLE IF EXISTS skald_calls, cost_effects, cost_accounts")
        db.execute(MIGRATION)
        db.execute("""CREATE TABLE cost_effects (key text NOT NULL);
            CREATE TABLE cost_accounts (id int PRIMARY KEY, balance bigint);
            INSERT INTO cost_accounts SELECT n, 0 FROM generate_series(0, 999) n""")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = free.getsockname()
    here = os.path.dirname(os.path.abspath(__file__))
    server = subprocess.Popen(
        [sys.executable, "-m", "gunicorn", "--chdir", here, "-k", "gthread", "--threads", "1", "--keep-alive", "60",
         "--log-level", "warning", "-b", f"127.0.0.1:{address[1]}", "cost:application()"])  # fmt: skip
    try:
        for _ in range(100):
            try:
                sock = socket.create_connection(address)
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        run, took = time.time_ns(), {"with": [], "bare": [], "flask": []}
        for n in range(CALLS + 200):
            for path in random.sample(sorted(took), len(took)):
                took[path].append(call(sock, path, f"{run}-{n:08}-{path}"))  # ids increase with time
        library, bare, flask = (middle(times[200:]) for times in took.values())
        print(f"Python: {library:.0f} µs; without the library {bare:.0f} ({100 * (library / bare - 1):+.1f} %), ", end="")
        print(f"in Flask {flask:.0f} ({100 * (library / flask - 1):+.1f} %)")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
