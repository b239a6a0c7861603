// Plays the vectors of sdk/conformance, which are the same for all languages.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { Compensated, later, NotApplied, NotPending, participant, Refused } from "@skald-saga/participant";
import { defaultTenant, keyOf, requestOf } from "./calls.mjs";
import { inMemory, inPostgres, withPostgres } from "./stores.mjs";

const folder = new URL("../../conformance/", import.meta.url);
const members = {
  vector: ["name", "rule", "why", "certify", "library", "secrets", "participant", "calls", "effects", "net", "reports"],
  outcome: ["outcome", "output", "returns", "status", "code", "message", "effect", "retry_after_ms", "slow_ms", "held"],
  call: ["saga", "tenant", "step", "action", "run", "attempt", "fence", "payload", "headers", "members", "without",
    "body", "at_once", "together", "cut", "restart", "sign", "expect", "callback", "finish",
    "lost"],
  answer: ["status", "same_as", "body", "headers"],
};

function checkMembers(kind, value) {
  for (const name of Object.keys(value)) assert(members[kind].includes(name), `the runner does not know ${kind}.${name}`);
  return value;
}

const vectors = readdirSync(folder).filter((name) => name.endsWith(".json")).sort().flatMap((name) => {
  const file = JSON.parse(readFileSync(new URL(name, folder), "utf8"));
  assert.equal(file.format, 1, name);
  return file.vectors.map((v) => checkMembers("vector", v));
});
assert(vectors.length > 50, "only " + vectors.length + " vectors were found");

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function event() {
  let happen;
  const happened = new Promise((resolve) => { happen = resolve; });
  return { happened, happen };
}

class Run {
  constructor(vector, here) {
    Object.assign(this, { vector, here, answers: [], cut: [], invocations: 0, times: { execute: 0, compensate: 0, cancel: 0 } });
    this.reports = [];
    this.ids = new Map();
    this.begun = event();
    this.awaited = event();
    this.start();
  }

  start() {
    this.handle = participant({
      store: this.here.store, secrets: this.vector.secrets, onError: () => {},
      execute: (call, tx) => this.play("execute", call, tx),
      compensate: (call, tx) => this.play("compensate", call, tx),
      ...this.vector.participant?.cancel && { cancel: (call, tx) => this.play("cancel", call, tx) },
      fetch: async (url, { body }) => {
        this.reports.push({ to: url.split("/").at(-1), ...JSON.parse(body) });
        return Response.json({ result: "done", repeated: false });
      },
    });
  }

  id(letter) {
    if (!this.ids.has(letter)) this.ids.set(letter, randomUUID());
    return this.ids.get(letter);
  }

  async play(action, call, tx) {
    const list = this.vector.participant?.[action] ?? [{ outcome: "done" }];
    const how = checkMembers("outcome", list[Math.min(this.times[action]++, list.length - 1)]);
    const n = ++this.invocations;
    this.begun.happen();
    if (how.outcome === "done" || how.outcome === "fail" || how.effect) await this.here.effect(tx, call.key);
    if (how.held) await this.awaited.happened;
    if (how.slow_ms) await sleep(how.slow_ms);
    switch (how.outcome) {
      case "done": return how.returns === "nothing" ? undefined : how.output ?? { effect: n };
      case "later": return later();
      case "refused": throw new Refused(how.code, how.message, { status: how.status });
      case "not_applied": throw new NotApplied("", { retryAfterMs: how.retry_after_ms });
      case "fail": throw new TypeError("a programming error");
      default: throw new Error("unknown outcome " + how.outcome);
    }
  }

  /** The call with ids in place of letters. */
  named(call) {
    checkMembers("call", call);
    return { ...call, saga: this.id(call.saga ?? "A"), tenant: call.tenant ? this.id(call.tenant) : defaultTenant };
  }

  async send(call) {
    const named = this.named(call);
    const of = named.tenant + named.saga + named.step;
    if (call.action === "compensate") named.output = this[of] ?? null;
    const expect = call.expect ?? [{ status: 200 }];
    for (;;) {
      const response = await this.handle(requestOf(named, this.vector.secrets?.at(-1)));
      const answer = { status: response.status, headers: response.headers, body: await response.text() };
      if (answer.status === 200 && call.action !== "compensate" && answer.body) this[of] = JSON.parse(answer.body);
      if (![425, 429].includes(answer.status) || expect.some((e) => e.status === answer.status)) return answer;
      await sleep(5);
    }
  }

  /** Finishes the work of a call in a transaction, with one effect if the work was done. */
  async finish(call) {
    const key = keyOf(this.named(call));
    const how = checkMembers("outcome", call.finish);
    const output = {
      done: how.returns === "nothing" ? undefined : how.output ?? { finished: true },
      refused: new Refused(how.code ?? "", how.message), not_applied: new NotApplied(), fail: new TypeError("a mistake"),
    }[how.outcome];
    try {
      const report = await this.here.transaction(async (tx) => {
        if (how.outcome === "done") await this.here.effect(tx, key);
        return await this.handle.finish(tx, key, output);
      });
      if (!call.lost) await report.send();
      return { status: 200, body: "" };
    } catch (error) {
      if (error instanceof Compensated) return { status: 409 };
      if (error instanceof NotPending) return { status: 404 };
      throw error;
    }
  }

  holds(expected, answer) {
    checkMembers("answer", expected);
    if (expected.status && expected.status !== answer.status) return false;
    const same = this.answers[expected.same_as - 1];
    if (expected.same_as && (same.status !== answer.status || same.body !== answer.body)) return false;
    for (const [name, value] of Object.entries(expected.headers ?? {})) {
      if (answer.headers.get(name) !== value) return false;
    }
    const body = expected.body && JSON.parse(answer.body);
    return Object.entries(expected.body ?? {}).every(([k, v]) => JSON.stringify(body[k]) === JSON.stringify(v));
  }

  async calls() {
    const { calls } = this.vector;
    for (let i = 0; i < calls.length;) {
      let next = i + 1;
      while (calls[i].together && calls[next]?.together === calls[i].together) next++;
      const now = calls.slice(i, next);
      if (now.some((c) => c.restart)) {
        this.here.restart();
        this.start();
      }
      const all = now.map(async (call, k) => {
        if (call.cut) { // it continues without its caller
          this.cut.push(this.send(call));
          return await this.begun.happened;
        }
        this.awaited.happen();
        const answers = await Promise.all(Array.from({ length: call.at_once ?? 1 }, () => call.finish ? this.finish(call) : this.send(call)));
        const done = answers.filter((a) => a.status === 200);
        assert.equal(new Set(done.map((a) => a.body)).size, Math.min(done.length, 1), "answers at once differ");
        this.answers[i + k] = answers[0];
        for (const answer of answers) {
          assert((call.expect ?? [{ status: 200 }]).some((e) => this.holds(e, answer)),
            `call ${i + k + 1}: ${answer.status} ${answer.body}; expected ${JSON.stringify(call.expect)}. ${this.vector.why}`);
        }
      });
      await Promise.all(all);
      i = next;
    }
    await Promise.allSettled(this.cut);
  }

  async check() {
    await this.calls();
    const { vector } = this;
    const counted = {};
    const name = {};
    for (const call of vector.calls) {
      const letters = `${call.saga ?? "A"}/${call.step ?? "charge"}`;
      name[keyOf(this.named(call))] = (call.tenant ? call.tenant + "/" : "") + `${letters}/${call.action ?? "execute"}` +
        (call.run > 1 ? "#" + call.run : "");
    }
    for (const key of await this.here.effects()) {
      if (name[key]) counted[name[key]] = (counted[name[key]] ?? 0) + 1;
    }
    if (vector.reports) {
      const known = ({ to, result, output, error }, of) =>
        JSON.stringify([to, result, output, Object.keys(of.error ?? {}).map((name) => [name, error?.[name]])]);
      const want = vector.reports.map((r) => known(r, r));
      assert.equal(this.reports.length, want.length, JSON.stringify(this.reports));
      for (const [n, report] of vector.reports.entries()) {
        assert(this.reports.some((got) => known(got, report) === want[n]), `${want[n]}: ${JSON.stringify(this.reports)}`);
      }
    }
    if (vector.effects) assert.deepEqual(counted, vector.effects, vector.why);
    for (const [step, net] of Object.entries(vector.net ?? {})) {
      assert.equal((counted[step + "/execute"] ?? 0) - (counted[step + "/compensate"] ?? 0), net, vector.why);
    }
  }
}

describe("vectors in memory", () => {
  for (const vector of vectors) {
    if (vector.calls.some((c) => c.restart)) continue; // a memory store does not survive it
    test(vector.name, () => new Run(vector, inMemory()).check());
  }
});

if (withPostgres) {
  describe("vectors on PostgreSQL", () => {
    let here;
    before(async () => { here = await inPostgres("vectors"); });
    after(() => here?.end());
    for (const vector of vectors) test(vector.name, () => new Run(vector, here).check());
  });
}
