// Calls that are refused before anything is done, and the signatures of docs/participants.md.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { memoryStore, participant, Refused } from "@skald-saga/participant";
import { requestOf } from "./calls.mjs";

const manual = readFileSync(new URL("../../../docs/participants.md", import.meta.url), "utf8");

test("the signatures in the manual are good", async () => {
  const rows = [...manual.matchAll(/^\| `(whsec_\S+)` \| `(\S+)` \| `(\d+)` \| `(.+)` \| `(v1,\S+)` \|$/gm)];
  assert.equal(rows.length, 2);
  for (const [, secret, key, timestamp, body, signature] of rows) {
    const sent = async (now, changes = {}) => {
      const handle = participant({ store: memoryStore(), execute: () => {}, secrets: [secret], now: () => now * 1000 });
      const headers = { "Idempotency-Key": key, "X-Saga-Timestamp": timestamp, "X-Saga-Signature": signature, ...changes };
      return (await handle(new Request("http://test/", { method: "POST", headers, body }))).status;
    };
    const at = Number(timestamp);
    assert.equal(await sent(at), 400); // the bodies there are not complete calls
    assert.equal(await sent(at + 299), 400);
    assert.equal(await sent(at, { "X-Saga-Signature": `v1,AAAA v2,x ${signature}` }), 400);
    assert.equal(await sent(at, { "X-Saga-Signature": `v1,AAAA, ${signature}, v1,BBBB` }), 400);
    assert.equal(await sent(at + 301), 401);
    assert.equal(await sent(at - 301), 401);
    for (const wrong of [{ "Idempotency-Key": key + "x" }, { "X-Saga-Timestamp": String(at + 1) }, { "X-Saga-Timestamp": "" },
      { "X-Saga-Signature": "" }, { "X-Saga-Signature": signature.slice(3) }, { "X-Saga-Signature": "v1,?" }]) {
      assert.equal(await sent(at, wrong), 401, JSON.stringify(wrong));
    }
  }
});

test("a secret that is malformed is found at the start", () => {
  for (const secret of ["secret", "whsec_", "whsec_AAAA", "whsec_" + "A".repeat(92), "whsec_?"]) {
    assert.throws(() => participant({ store: memoryStore(), execute: () => {}, secrets: [secret] }), /whsec_/);
    assert.throws(() => participant({ store: memoryStore(), execute: () => {}, secrets: [] }), /must have a secret/);
  }
});

test("no input is answered with 5xx", async () => {
  const handle = participant({ store: memoryStore(), execute: () => assert.fail("it ran"), maxBodyBytes: 1000, onError: () => {} });
  const call = { saga: "s" };
  for (const [status, bad] of [
    [400, { body: "" }], [400, { body: "[]" }], [400, { body: "null" }], [400, { body: "{}" }], [400, { body: "\ufffe" }],
    [400, { body: Buffer.from([0x7b, 0xff, 0x7d]) }], [400, { body: '{"saga_id": 1, "step": "charge", "action": "execute"}' }],
    [400, { body: '{"saga_id": "s", "step": "charge", "action": "toString"}' }], [413, { body: "x".repeat(1001) }],
    [400, { headers: { "X-Saga-Fence": "-1" } }], [400, { headers: { "X-Saga-Fence": "1e3" } }],
    [400, { headers: { "X-Saga-Fence": "9".repeat(30) } }], [400, { headers: { "X-Saga-Attempt": "one" } }],
    [400, { headers: { "X-Saga-Id": "other" } }], [400, { headers: { "X-Saga-Step": "other" } }],
    [400, { without: ["Idempotency-Key"] }],
  ]) {
    assert.equal((await handle(requestOf({ ...call, ...bad }))).status, status, JSON.stringify(bad));
  }
  assert.equal((await handle(new Request("http://test/"))).status, 400);
});

test("only a status that means a refusal can be one", () => {
  for (const status of [200, 399, 408, 425, 429, 500]) assert.throws(() => new Refused("NO", "", { status }), RangeError);
});

test("what an output cannot be is an error that nothing was kept of", async () => {
  const circle = {};
  circle.circle = circle;
  const outputs = [circle, 1n, "done"];
  const handle = participant({ store: memoryStore(), execute: () => outputs.shift(), onError: () => {} });
  const statuses = [];
  for (let attempt = 1; attempt <= 3; attempt++) statuses.push((await handle(requestOf({ saga: "s", attempt }))).status);
  assert.deepEqual(statuses, [500, 500, 200]);
});

test("a call that never ends is answered with 425 meanwhile, and leaves the others alone", async () => {
  let finish;
  const handle = participant({ store: memoryStore(), waitMs: 1, execute: ({ saga }) => saga === "slow" && new Promise((f) => { finish = f; }) });
  const slow = handle(requestOf({ saga: "slow" }));
  const repeat = await handle(requestOf({ saga: "slow", attempt: 2 }));
  assert.deepEqual([repeat.status, repeat.headers.get("Retry-After")], [425, "1"]);
  assert.equal((await handle(requestOf({ saga: "other" }))).status, 200);
  finish({});
  assert.equal((await slow).status, 200);
  assert.equal((await handle(requestOf({ saga: "slow", attempt: 3 }))).status, 200);
});
