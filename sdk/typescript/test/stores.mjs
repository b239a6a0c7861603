// The stores under test, each with a place for effects that are written in the transaction of the
// call.
import pg from "pg";
import { memoryStore } from "@skald-saga/participant";
import { migration, pgStore } from "@skald-saga/participant/pg";

/** A memory store. It cannot be restarted, and effects appear when the transaction ends. */
export function inMemory() {
  const effects = [];
  const store = memoryStore();
  return {
    store,
    effect: async (tx, key) => tx.onCommit(() => effects.push(key)),
    effects: async () => effects,
    async transaction(work) {
      const done = [];
      const result = await work({ onCommit: (effect) => void done.push(effect) });
      for (const effect of done) effect();
      return result;
    },
    end: async () => {},
  };
}

const url = process.env.DATABASE_URL;

/**
 * The tests on PostgreSQL run unless only those in memory are requested: a missing database is a
 * failure.
 */
export const withPostgres = process.env.TEST_STORES !== "memory";

/** A store in a schema of its own in the database at DATABASE_URL. */
export async function inPostgres(schema) {
  if (!url) throw new Error("DATABASE_URL is not set: use make test-sdk, or TEST_STORES=memory without PostgreSQL");
  const settings = { connectionString: url, options: `-c search_path=${schema}`, max: 8 };
  let pool = new pg.Pool(settings);
  await pool.query(`CREATE SCHEMA ${schema}; ${migration} CREATE TABLE effects (key text NOT NULL)`);
  const here = {
    pool,
    store: pgStore(pool),
    effect: (tx, key) => tx.query("INSERT INTO effects VALUES ($1)", [key]),
    effects: async () => (await pool.query("SELECT key FROM effects")).rows.map((row) => row.key),
    /** A transaction of a worker. */
    async transaction(work) {
      const client = await pool.connect();
      let failed = true;
      try {
        await client.query("BEGIN");
        const result = await work(client);
        await client.query("COMMIT");
        failed = false;
        return result;
      } finally {
        if (failed) await client.query("ROLLBACK");
        client.release();
      }
    },
    /** Another process: it shares only the database with the previous one. */
    restart() {
      pool.end();
      here.pool = pool = new pg.Pool(settings);
      here.store = pgStore(pool);
    },
    async end() {
      await pool.query(`DROP SCHEMA ${schema} CASCADE`);
      await pool.end();
    },
  };
  return here;
}
