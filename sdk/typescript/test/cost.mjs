// The cost of the library: the same function with and without it, alternating, on the PostgreSQL at
// DATABASE_URL. make bench-sdk runs it. Like most functions, this one reads, updates and inserts.
// It is served by another process, by node:http alone and in Express. The result is only meaningful
// with synchronous writes to the disk and idle cores.
import { fork } from "node:child_process";
import { createServer } from "node:http";
import { connect } from "node:net";
import { fileURLToPath } from "node:url";
import express from "express";
import pg from "pg";
import { participant } from "@skald-saga/participant";
import { toNode } from "@skald-saga/participant/node";
import { migration, pgStore } from "@skald-saga/participant/pg";

const calls = Number(process.env.CALLS ?? 2500);

async function charge(key, amount, db) {
  const account = key.length % 1000;
  const { rows } = await db.query("SELECT balance FROM cost_accounts WHERE id = $1 FOR UPDATE", [account]);
  await db.query("UPDATE cost_accounts SET balance = $2 WHERE id = $1", [account, rows[0].balance - amount]);
  await db.query("INSERT INTO cost_effects VALUES ($1)", [key]);
  return { charge_id: key };
}

function serve() {
  const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 1 });
  const library = toNode(participant({
    store: pgStore(pool), execute: (call, db) => charge(call.key, call.payload.amount, db),
  }));
  const plain = async (key, amount) => {
    const db = await pool.connect();
    await db.query("BEGIN");
    const output = await charge(key, amount, db);
    await db.query("COMMIT");
    db.release();
    return output;
  };
  const bare = async (req, res) => {
    const chunks = [];
    for await (const chunk of req) chunks.push(chunk);
    const call = JSON.parse(Buffer.concat(chunks).toString());
    const body = JSON.stringify(await plain(req.headers["idempotency-key"], call.payload.amount));
    res.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
    res.end(body);
  };
  const app = express();
  app.post("/express/with", library);
  app.post("/express/without", express.json(), async (req, res) => {
    res.json(await plain(req.get("idempotency-key"), req.body.payload.amount));
  });
  const server = createServer((req, res) => {
    if (req.url.startsWith("/express")) app(req, res);
    else (req.url === "/with" ? library : bare)(req, res);
  });
  server.keepAliveTimeout = 60_000;
  server.listen(0, "127.0.0.1", () => process.send(server.address().port));
}

const run = Date.now();
let sagas = 0; // their ids increase with time

/** Sends one call and returns the µs until the complete answer has arrived. */
function call(socket, path) {
  const saga = `${run}-${String(++sagas).padStart(8, "0")}`;
  const body = JSON.stringify({ saga_id: saga, step: "x", action: "execute", payload: { amount: 5 }, outputs: {} });
  const headers = {
    "Host": "cost", "Content-Type": "application/json", "Content-Length": body.length, "X-Saga-Id": saga,
    "Idempotency-Key": `${saga}/x/execute`, "X-Saga-Step": "x", "X-Saga-Action": "execute",
  };
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`).join("");
  return new Promise((resolve, reject) => {
    let answer = "";
    const begin = process.hrtime.bigint();
    const receive = (piece) => {
      answer += piece;
      if (!answer.endsWith("}")) return;
      const took = Number(process.hrtime.bigint() - begin) / 1000;
      socket.removeListener("data", receive);
      if (answer.startsWith("HTTP/1.1 200")) resolve(took);
      else reject(new Error(answer));
    };
    socket.on("data", receive);
    socket.write(`POST /${path} HTTP/1.1\r\n${head}\r\n${body}`);
  });
}

/**
 * The mean of the middle half, so that a pause of the machine in one round does not decide the
 * result.
 */
function middle(times) {
  const half = times.toSorted((a, b) => a - b).slice(Math.floor(times.length / 4), Math.floor(times.length * 3 / 4));
  return half.reduce((sum, time) => sum + time, 0) / half.length;
}

async function measure() {
  const db = new pg.Client(process.env.DATABASE_URL);
  await db.connect();
  await db.query(`DROP TABLE IF EXISTS skald_calls, cost_effects, cost_accounts; ${migration}
    CREATE TABLE cost_effects (key text NOT NULL); CREATE TABLE cost_accounts (id int PRIMARY KEY, balance bigint);
    INSERT INTO cost_accounts SELECT n, 0 FROM generate_series(0, 999) n`);
  await db.end();
  const server = fork(fileURLToPath(import.meta.url), ["serve"]);
  const port = await new Promise((resolve) => server.once("message", resolve));
  const socket = connect(port, "127.0.0.1").setNoDelay();
  const took = { "with": [], "without": [], "express/with": [], "express/without": [] };
  const paths = Object.keys(took);
  for (let n = 0; n < calls + 200; n++) {
    for (let i = 0; i < paths.length; i++) {
      const path = paths[(i + n) % paths.length];
      took[path].push(await call(socket, path));
    }
  }
  for (const [name, at] of [["node:http", ""], ["Express", "express/"]]) {
    const [library, plain] = [`${at}with`, `${at}without`].map((path) => middle(took[path].slice(200)));
    const more = (100 * (library / plain - 1)).toFixed(1);
    console.log(`TypeScript, ${name}: ${library.toFixed(0)} µs; without the library ${plain.toFixed(0)} (+${more} %)`);
  }
  socket.destroy();
  server.kill();
}

if (process.argv[2] === "serve") serve();
else await measure();
