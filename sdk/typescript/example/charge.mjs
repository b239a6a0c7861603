// A charge service: POST /charges executes and compensates a step. GET /effects?key=… returns how
// often a key took effect, for skald participant certify --effects. It listens on PORT of the
// loopback interface and needs DATABASE_URL.
import { createServer } from "node:http";
import pg from "pg";
import { participant, Refused } from "@skald-saga/participant";
import { toNode } from "@skald-saga/participant/node";
import { migration, pgStore } from "@skald-saga/participant/pg";

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
await pool.query("CREATE TABLE IF NOT EXISTS charges (key text NOT NULL, account text NOT NULL, amount bigint NOT NULL)");
const { rows } = await pool.query("SELECT to_regclass('skald_calls') AS found");
if (!rows[0].found) await pool.query(migration);

/** An amount from the payload, in cents. */
function amountOf({ payload }) {
  const amount = payload?.amount;
  if (!Number.isSafeInteger(amount) || amount <= 0) {
    throw new Refused("AMOUNT_INVALID", "amount must be a positive number of cents", { status: 422 });
  }
  return amount;
}

const book = (db, call, amount) =>
  db.query("INSERT INTO charges VALUES ($1, $2, $3)", [call.key, String(call.payload.account ?? "default"), amount]);

const charges = toNode(participant({
  store: pgStore(pool),
  secrets: process.env.SKALD_SECRET ? [process.env.SKALD_SECRET] : undefined,
  async execute(call, db) {
    const amount = amountOf(call);
    await book(db, call, amount);
    return { charged: amount };
  },
  async compensate(call, db) {
    await book(db, call, -amountOf(call));
  },
}));

const server = createServer(async (req, res) => {
  const url = new URL(req.url, "http://localhost");
  if (req.method === "POST" && url.pathname === "/charges") return charges(req, res);
  if (req.method !== "GET" || url.pathname !== "/effects") return res.writeHead(404).end();
  const found = await pool.query("SELECT count(*)::int AS effects FROM charges WHERE key = $1", [url.searchParams.get("key")]);
  res.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(found.rows[0]));
});
server.listen(Number(process.env.PORT ?? 9101), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}/charges`);
});
process.on("SIGTERM", () => server.close(() => pool.end()));
