// A packing service that answers later: POST /parcels notes an order, and a worker packs it WORK_MS
// later. GET /effects?key=… returns how often a key took effect, for skald participant certify
// --later --effects. It listens on PORT of the loopback interface and needs DATABASE_URL.
import { createServer } from "node:http";
import pg from "pg";
import { Compensated, later, NotPending, participant } from "@skald-saga/participant";
import { toNode } from "@skald-saga/participant/node";
import { migration, pgStore } from "@skald-saga/participant/pg";

const workMs = Number(process.env.WORK_MS ?? 2000);
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
await pool.query(`CREATE TABLE IF NOT EXISTS parcels (saga text PRIMARY KEY, key text NOT NULL, due timestamptz NOT NULL);
  CREATE TABLE IF NOT EXISTS packed (key text NOT NULL)`);
const { rows } = await pool.query("SELECT to_regclass('skald_calls') AS found");
if (!rows[0].found) await pool.query(migration);

const packing = participant({
  store: pgStore(pool),
  secrets: process.env.SKALD_SECRET ? [process.env.SKALD_SECRET] : undefined,
  async execute({ saga, key }, db) {
    await db.query("INSERT INTO parcels VALUES ($1, $2, now() + $3 * interval '1 ms')", [saga, key, workMs]);
    return later();
  },
  async cancel({ saga }, db) { // it was not packed yet
    await db.query("DELETE FROM parcels WHERE saga = $1", [saga]);
  },
  async compensate({ key }, db) {
    await db.query("INSERT INTO packed VALUES ($1)", [key]);
  },
});

/** Packs one order. */
async function pack(key) {
  const db = await pool.connect();
  try {
    await db.query("BEGIN");
    const report = await packing.finish(db, key, { parcel: key });
    await db.query("DELETE FROM parcels WHERE key = $1", [key]);
    await db.query("INSERT INTO packed VALUES ($1)", [key]);
    await db.query("COMMIT");
    report.send().catch(console.error); // if it is lost, the repeated call gets the answer
  } catch (error) {
    await db.query("ROLLBACK");
    if (!(error instanceof Compensated || error instanceof NotPending)) throw error;
  } finally {
    db.release();
  }
}

/**
 * Packs the orders that are due. They are in the database, so the next process continues where this
 * one ends.
 */
async function work() {
  const due = await pool.query("SELECT key FROM parcels WHERE due < now()");
  for (const { key } of due.rows) await pack(key).catch(console.error);
  setTimeout(work, 50);
}

const parcels = toNode(packing);
const server = createServer(async (req, res) => {
  const url = new URL(req.url, "http://localhost");
  if (req.method === "POST" && url.pathname === "/parcels") return parcels(req, res);
  if (req.method !== "GET" || url.pathname !== "/effects") return res.writeHead(404).end();
  const found = await pool.query("SELECT count(*)::int AS effects FROM packed WHERE key = $1", [url.searchParams.get("key")]);
  res.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(found.rows[0]));
});
server.listen(Number(process.env.PORT ?? 9104), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}/parcels`);
});
await work();
