// Answers that come later: the reports, and the calls that are refused.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, test } from "node:test";
import { Compensated, later, memoryStore, NotPending, participant } from "@skald-saga/participant";
import { askedMs, pauseMs } from "../dist/report.js";
import { keyOf, requestOf } from "./calls.mjs";

/**
 * A participant that has answered a call later. Its reports get the given answers in turn, and the
 * last answer repeats.
 */
async function promised(...statuses) {
  const call = { saga: randomUUID(), callback: "one" };
  const sent = [];
  const handle = participant({
    store: memoryStore(), execute: () => later(),
    fetch: async (url, init) => {
      sent.push(init.body);
      assert.equal(url, "https://skald.example/one");
      assert.equal(init.redirect, "manual");
      const status = statuses[Math.min(sent.length, statuses.length) - 1];
      if (status === "lost") throw new TypeError("fetch failed: " + url);
      return new Response(null, { status, headers: { "Retry-After": "0", Location: "/elsewhere" } });
    },
  });
  const response = await handle(requestOf(call));
  assert.equal(response.status, 202);
  assert.equal(await response.text(), '{"later":true}');
  return { call, handle, key: keyOf(call), sent };
}

describe("a report is repeated while that is of use", () => {
  const tries = {
    "accepted": [[200], 1], "too late": [[409], 1], "not ours": [[404], 1, 404], "not understood": [[422], 1, 422],
    "too large": [[413], 1, 413], "elsewhere": [[307, 200], 1, 307], "not yet, then": [[425, 429, 200], 3],
    "not there, then": [[503, 502, 409], 3], "lost, then": [["lost", 200], 2], "never": [[503], 20, 503],
  };
  for (const [name, [statuses, times, fails]] of Object.entries(tries)) {
    // A lost one has no Retry-After, so the library chooses the pause.
    test(name, async () => {
      const { handle, key, sent } = await promised(...statuses);
      const report = await handle.finish({}, key, { charged: 5 });
      if (fails) await assert.rejects(report.send(), new RegExp(`answered with ${fails}$`));
      else await report.send();
      assert.deepEqual(sent, Array(times).fill('{"result":"done","output":{"charged":5}}'));
    });
  }

  test("until it is aborted", async () => {
    const { handle, key, sent } = await promised(503);
    const report = await handle.finish({}, key);
    await assert.rejects(report.send(AbortSignal.abort(new Error("enough"))), /enough/);
    assert.deepEqual(sent, []);
  });

  test("and the pauses are those that were asked for", () => {
    const now = Date.UTC(2026, 0, 1);
    const date = (ms) => new Date(now + ms).toUTCString();
    const wanted = [[null, undefined], ["", undefined], ["x", undefined], ["-4", undefined], ["0", 0], ["7", 7000],
      [date(60_000), 60_000], [date(-60_000), 0]];
    for (const [value, want] of wanted) assert.equal(askedMs(value, now), want, value);
    assert.equal(pauseMs(0, 7000), 7000);
    assert.equal(pauseMs(0, 3_600_000), 300_000);
    for (let n = 0; n < 20; n++) assert(pauseMs(n) > 0 && pauseMs(n) <= 30_000);
    assert(pauseMs(19) >= 15_000);
  });
});

test("heartbeats", async () => {
  const { call, handle, key, sent } = await promised(200, 200, 409);
  await handle.heartbeat(key);
  await handle.heartbeat(key, { percent: 40, message: "packed" });
  await assert.rejects(handle.heartbeat(key), /409/);
  assert.deepEqual(sent, ['{"result":"heartbeat"}',
    '{"result":"heartbeat","progress":{"percent":40,"message":"packed"}}', '{"result":"heartbeat"}']);
  await assert.rejects(handle.heartbeat(keyOf({ saga: call.saga, step: "other" })), NotPending);
  assert.equal((await handle(requestOf({ ...call, action: "compensate" }))).status, 200);
  await assert.rejects(handle.heartbeat(key), Compensated);
  await assert.rejects(handle.finish({}, key), Compensated);
  assert.equal(sent.length, 3);
});

test("what cannot be an answer changes nothing", async () => {
  const { call, handle, key } = await promised(200);
  await assert.rejects(handle.finish({}, key, later()), TypeError);
  await assert.rejects(handle.finish({}, key, 1n), TypeError);
  await handle.finish({}, key, [1]);
  const response = await handle(requestOf(call));
  assert.deepEqual([response.status, await response.text()], [200, "[1]"]);
});

test("a callback that is no address", async () => {
  const errors = [];
  const handle = participant({ store: memoryStore(), execute: () => later(), onError: (error) => errors.push(error.message) });
  for (const callback of ["", "file:///etc/passwd", "/relative", "http://"]) {
    const headers = callback ? { "X-Saga-Callback": callback } : {};
    assert.equal((await handle(requestOf({ saga: randomUUID(), headers }))).status, 500, callback);
    assert.match(errors.pop(), /answer\.later/);
  }
});

test("a callback at another origin", async () => {
  let done = 0;
  const handle = participant({
    store: memoryStore(), callbackOrigins: ["http://127.0.0.1:8080", "https://skald.example"],
    execute: () => { done++; return later(); },
  });
  const saga = randomUUID();
  const call = (callback, action) =>
    handle(requestOf({ saga, action, headers: callback ? { "X-Saga-Callback": callback } : {} }));
  for (const callback of [
    "https://other.example/one", "http://skald.example/one", "https://skald.example:8443/one", "https://skald.example",
    "https://skald.example@other.example/one", "https://skald.example.other.example/one", "//skald.example/one",
    "https://skald.example\\@other/one", "https://other.example/https://skald.example/", "https://skald.example?/@other.example/",
  ]) {
    for (const action of ["compensate", "execute"]) {
      const answer = await call(callback, action);
      assert.deepEqual([answer.status, (await answer.json()).code, done], [403, "CALLBACK_ORIGIN", 0], callback);
    }
  }
  assert.deepEqual([(await call("https://skald.example/one", "execute")).status, done], [202, 1]);
  assert.deepEqual([(await call("http://127.0.0.1:8080/two", "execute")).status, done], [202, 1]);
  assert.equal((await call("", "compensate")).status, 200);
  for (const origin of ["skald.example", "https://skald.example/", "https://", "ftp://skald.example", "https://a@skald.example"]) {
    const wrong = { store: memoryStore(), execute: () => {}, callbackOrigins: [origin] };
    assert.throws(() => participant(wrong), /is not an origin/, origin);
  }
  assert.throws(() => participant({ store: memoryStore(), execute: () => {}, callbackOrigins: [] }), /callbackOrigins/);
});
