// Cases that need a database: concurrent processes, broken connections, and functions that break
// their transaction.
import assert from "node:assert/strict";
import { createHash, randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import pg from "pg";
import { participant } from "@skald-saga/participant";
import { pgStore } from "@skald-saga/participant/pg";
import { bodyOf, defaultTenant, keyOf, requestOf } from "./calls.mjs";
import { inPostgres, withPostgres } from "./stores.mjs";

if (withPostgres) {
  describe("PostgreSQL", () => {
    let here;
    before(async () => { here = await inPostgres("processes"); });
    after(() => here?.end());

    const answer = async (handle, call) => {
      const response = await handle(requestOf(call));
      return { status: response.status, body: await response.text() };
    };
    const effects = async (call) => (await here.effects()).filter((key) => key === keyOf(call)).length;

    /** A participant whose function does this before its effect, but only on its first call. */
    function first(spoil, after = async () => {}) {
      let calls = 0;
      return participant({
        store: here.store, onError: () => {},
        async execute(call, db) {
          const now = calls++ === 0;
          if (now) await spoil(db);
          await here.effect(db, call.key).catch((error) => { if (!now) throw error; });
          if (now) await after(db);
          return { calls };
        },
      });
    }

    for (const [name, handle] of Object.entries({
      "swallows an error of the database": () => first(async (db) => db.query("SELECT 1/0").catch(() => {}), async () => {}),
      "rolls back": () => first(async () => {}, (db) => db.query("ROLLBACK")),
      "loses its connection": () => first(async () => {}, async (db) => {
        const { rows } = await db.query("SELECT pg_backend_pid() AS pid");
        await here.pool.query("SELECT pg_terminate_backend($1)", [rows[0].pid]);
        await db.query("SELECT 1").catch(() => {});
      }),
    })) {
      test(`a function that ${name} has done nothing`, async () => {
        const [call, participates] = [{ saga: randomUUID() }, handle()];
        assert.equal((await answer(participates, call)).status, 500);
        assert.equal(await effects(call), 0);
        const repeat = await answer(participates, { ...call, attempt: 2 });
        assert.deepEqual(repeat, { status: 200, body: '{"calls":2}' });
        assert.deepEqual(await answer(participates, { ...call, attempt: 3 }), repeat);
        assert.equal(await effects(call), 1);
      });
    }

    test("functions run at READ COMMITTED, whatever the default of the database is", async () => {
      const options = "-c search_path=processes -c default_transaction_isolation=serializable";
      const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, options });
      const execute = async (_, db) => (await db.query("SHOW transaction_isolation")).rows[0];
      const handle = participant({ store: pgStore(pool), execute });
      const done = { status: 200, body: '{"transaction_isolation":"read committed"}' };
      assert.deepEqual(await answer(handle, { saga: randomUUID() }), done);
      await pool.end();
    });

    test("a step that is forgotten meanwhile is 425: nothing was applied", async () => {
      const call = { saga: randomUUID() };
      const forgets = {
        async connect() {
          const client = await here.pool.connect();
          const query = client.query;
          client.query = async (text) => {
            const results = await query.call(client, text);
            if (text.includes("EXECUTE skald_claim_1")) {
              await here.pool.query("DELETE FROM skald_calls WHERE id LIKE $1", [call.saga + "%"]);
              client.query = query;
            }
            return results;
          };
          return client;
        },
      };
      const execute = ({ key }, db) => here.effect(db, key);
      assert.equal((await answer(participant({ store: here.store, execute }), call)).status, 200);
      const handle = participant({ store: pgStore(forgets), execute: () => assert.fail("it ran"), onError: () => {} });
      assert.equal((await answer(handle, call)).status, 425);
    });

    // Poolers hand PostgreSQL sessions, with their prepared statements, from one client to another.
    for (const [name, before, between] of [
      ["has prepared the statements before", `PREPARE skald_claim_1 (text, bigint) AS
        INSERT INTO skald_calls (id, state, changed_at) VALUES ($1, '', $2) ON CONFLICT (id) DO NOTHING;
        PREPARE skald_save_1 (text, bigint, text) AS
        UPDATE skald_calls SET state = $1, changed_at = $2 WHERE id = $3`, "SELECT"],
      ["has not prepared the statements", "SELECT", "DEALLOCATE ALL"],
    ]) {
      test(`a session that another client ${name}`, async () => {
        const settings = { connectionString: process.env.DATABASE_URL, options: "-c search_path=processes", max: 1 };
        const pool = new pg.Pool(settings);
        const handle = participant({ store: pgStore(pool), execute: ({ key }, db) => here.effect(db, key) });
        await pool.query(before);
        for (const call of [{ saga: randomUUID() }, { saga: randomUUID() }]) {
          const done = await answer(handle, call);
          assert.equal(done.status, 200);
          await pool.query(between);
          assert.deepEqual(await answer(handle, call), done);
          assert.equal(await effects(call), 1);
          await pool.query(between);
        }
        await pool.end();
      });
    }

    test("a function that commits gets 500, so that it is found at once", async () => {
      const handle = first(async () => {}, (db) => db.query("COMMIT"));
      assert.equal((await answer(handle, { saga: randomUUID() })).status, 500);
    });

    test("two processes do a call once", async () => {
      const call = { saga: randomUUID() };
      const other = new pg.Pool({ connectionString: process.env.DATABASE_URL, options: "-c search_path=processes" });
      const execute = async ({ key }, db) => {
        await here.effect(db, key);
        await db.query("SELECT pg_sleep(0.05)");
        return { by: randomUUID() };
      };
      const both = [here.store, pgStore(other)].map((store) => participant({ store, execute }));
      const answers = await Promise.all([...both, ...both, ...both].map((handle) => answer(handle, call)));
      await other.end();
      assert.deepEqual(new Set(answers.map((a) => a.status)), new Set([200]));
      assert.equal(new Set(answers.map((a) => a.body)).size, 1);
      assert.equal(await effects(call), 1);
    });

    test("a step that stays locked, and a database that is unavailable, are 425: nothing was applied", async () => {
      const settings = { connectionString: process.env.DATABASE_URL, options: "-c search_path=processes -c lock_timeout=50" };
      const pool = new pg.Pool(settings);
      const call = { saga: randomUUID() };
      const holder = await here.store.begin(`${call.saga}/${defaultTenant}/charge`);
      const handle = participant({ store: pgStore(pool), execute: () => assert.fail("it ran"), onError: () => {} });
      assert.equal((await answer(handle, call)).status, 425);
      await holder.rollback();
      await pool.end();
      assert.equal((await answer(handle, call)).status, 425);
    });

    test("every name and every output is stored as it is", async () => {
      const names = ["a'b\\c\"d", "$$;--", "予約 🎉", "%E4", "#2", "a/b", "__proto__", "x".repeat(700), "\ud800"];
      for (const step of names) {
        const handle = participant({ store: here.store, execute: ({ step }) => ({ step, text: "'\\ \u0000 \ud800 \u2028" }) });
        const call = { saga: randomUUID(), step };
        const done = await answer(handle, call);
        assert.equal(done.status, 200, step);
        assert.deepEqual(await answer(handle, { ...call, attempt: 2 }), done);
      }
    });

    // The row was written by api/participant: a participant may be rewritten in another language.
    test("a row of the library in Go is understood", async () => {
      const call = { saga: randomUUID(), step: "予約" };
      const digest = createHash("sha256").update(bodyOf(call)).digest("hex");
      const state = `{"fence":4,"seen":1,"done":1,"calls":{"${keyOf(call)}":{"digest":"${digest}","status":200,"body":"{\\"by\\":\\"Go\\"}"}}}`;
      await here.pool.query("INSERT INTO skald_calls VALUES ($1, $2, 1795262400)",
        [`${call.saga}/${defaultTenant}/%E4%BA%88%E7%B4%84`, state]);
      let undone = 0;
      const handle = participant({ store: here.store, execute: () => assert.fail("it ran"), compensate: () => ++undone });
      assert.deepEqual(await answer(handle, { ...call, fence: 4 }), { status: 200, body: '{"by":"Go"}' });
      assert.equal((await answer(handle, { ...call, fence: 3 })).status, 409);
      assert.equal((await answer(handle, { ...call, fence: 5, action: "compensate" })).status, 200);
      assert.equal(undone, 1);
    });

    test("a promise of the library in Go is kept", async () => {
      const call = { saga: randomUUID(), step: "予約", callback: "two", attempt: 2 };
      const digest = createHash("sha256").update(bodyOf(call)).digest("hex");
      const id = `${call.saga}/${defaultTenant}/%E4%BA%88%E7%B4%84`;
      const pending = '{"callback":"https://skald.example/one","attempt":1,"action":"execute","run":1}';
      const state = `{"fence":1,"seen":1,"calls":{"${keyOf(call)}":{"digest":"${digest}","status":202,"body":"{\\"later\\":true}","later":${pending}}}}`;
      const name = "later:" + createHash("sha256").update(keyOf(call)).digest("hex");
      await here.pool.query("INSERT INTO skald_calls VALUES ($1, $2, 1795262400), ($3, $1, 1795262400)", [id, state, name]);
      const reports = [];
      const handle = participant({
        store: here.store, execute: () => assert.fail("it ran"),
        fetch: async (url, { body }) => { reports.push(url, body); return new Response(); },
      });
      assert.deepEqual(await answer(handle, call), { status: 202, body: '{"later":true}' });
      await handle.heartbeat(keyOf(call), { percent: 40 });
      const report = await here.transaction((tx) => handle.finish(tx, keyOf(call), { by: "TypeScript" }));
      await report.send();
      const url = "https://skald.example/two";
      assert.deepEqual(reports, [url, '{"result":"heartbeat","progress":{"percent":40}}',
        url, '{"result":"done","output":{"by":"TypeScript"}}']);
      assert.deepEqual(await answer(handle, call), { status: 200, body: '{"by":"TypeScript"}' });
    });

    test("what was purged is forgotten, nothing else", async () => {
      const [old, young] = [{ saga: randomUUID() }, { saga: randomUUID() }];
      let runs = 0;
      const handle = participant({ store: here.store, execute: () => ({ runs: ++runs }) });
      await answer(handle, old);
      await here.pool.query("UPDATE skald_calls SET changed_at = changed_at - 3600");
      await answer(handle, young);
      assert((await here.store.purge(new Date(Date.now() - 1_800_000))) > 0);
      await answer(handle, young);
      assert.equal(runs, 2);
      await answer(handle, old);
      assert.equal(runs, 3);
    });
  });
}
