// Random sequences of what Skald and the network may do to a participant, compared with a simple
// model: calls that are repeated, late or concurrent, functions that refuse or throw, and crashes
// before and after the commit.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { Compensated, later, NotApplied, NotPending, participant, Refused } from "@skald-saga/participant";
import { keyOf, requestOf } from "./calls.mjs";
import { inMemory, inPostgres, withPostgres } from "./stores.mjs";

/** A small random number generator (mulberry32): a seed gives the same sequence everywhere. */
function generator(seed) {
  let a = seed >>> 0;
  const next = () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), a | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (n) => Math.floor(next() * n);
  return { below, chance: (p) => next() < p, of: (list) => list[below(list.length)] };
}

/**
 * A store whose process is killed before a transaction, before a commit, or after a commit, when
 * the answer is lost.
 */
function crashing(store, plan) {
  const killed = () => { throw new Error("killed"); };
  return {
    ...store,
    async begin(id) {
      if (plan.crash === "begin") killed();
      const session = await store.begin(id);
      const end = (how) => async (step, name) => {
        if (step && plan.crash === "before") {
          await session.rollback();
          killed();
        }
        await session[how](step, name);
        if (step && plan.crash === "after") killed();
      };
      return { tx: session.tx, step: session.step, commit: end("commit"), rollback: end("rollback") };
    },
  };
}

const promise = { status: 202, body: '{"later":true}' };

/**
 * The model of one step according to docs/participants.md. It is independent of how the library
 * stores its state.
 */
class Model {
  fence = 0;
  answers = new Map(); // by key: the final answers. The body is undefined while the answer is lost
  effects = []; // keys
  newest = 0; // the run of execute that has reached the function
  blocked = 0; // runs up to this one may no longer be done
  held = false; // something was done and has not been undone
  waits = new Map(); // by key: the calls that were answered later

  /** Plays a call and returns its correct answer and whether the function has to run. */
  play(call, outcome, crash) {
    const key = keyOf(call);
    if (crash === "begin") return { status: 425 };
    if (call.fence < this.fence) return { status: 409 };
    const lost = { status: 500 };
    const higher = call.fence > this.fence;
    const saved = (change) => {
      if (crash === "before") return;
      this.fence = call.fence;
      change?.();
    };
    if (this.answers.has(key) || this.late(call)) {
      if (higher) saved();
      return higher && crash ? lost : this.answers.get(key) ?? { status: 409 };
    }
    const p = this.waits.get(key);
    if (p) {
      const newer = call.attempt >= p.attempt && call.callback !== p.callback;
      if (higher || newer) saved(() => newer && Object.assign(p, { callback: call.callback, attempt: call.attempt }));
      return (higher || newer) && crash ? lost : promise;
    }
    if ([...this.waits.values()].some((other) => other.action === "compensate")) {
      if (higher) saved();
      return higher && crash ? lost : { status: 425 };
    }
    if (call.action === "compensate" && !this.held && !this.begun()) {
      const answer = { status: 200, body: "{}" };
      saved(() => {
        this.answers.set(key, answer);
        // If nothing has arrived since the previous compensation, this one belongs to a run that
        // never arrived.
        this.blocked = Math.max(this.newest > this.blocked ? this.newest : this.blocked + 1, call.run);
      });
      return crash ? lost : answer;
    }
    const status = { done: 200, later: 202, refused: 409, not_applied: 425, fail: 500 }[outcome];
    const final = outcome === "done" || (outcome === "refused" && call.action === "execute");
    const answer = final ? { status, body: undefined } : outcome === "later" ? { ...promise } : { status };
    saved(() => {
      if (call.action === "execute") this.newest = call.run;
      else this.blocked = Math.max(this.blocked, this.newest);
      if (final) this.answers.set(key, answer);
      if (outcome === "later") this.waits.set(key, { ...call });
      if (outcome === "done") this.done(key, call.action);
    });
    return { ...(crash && status !== 425 ? lost : answer), runs: true };
  }

  done(key, action) {
    this.effects.push(key);
    this.held = action === "execute";
    if (this.held) return;
    for (const p of this.waits.values()) p.over = true;
  }

  /**
   * Whether the newest execute is waiting for its end, so that a compensation has something to
   * cancel.
   */
  begun() {
    return [...this.waits.values()].some((p) => p.action === "execute" && p.run === this.newest && !p.over);
  }

  /** Plays the end of the work and returns what finish must throw, or the callback. */
  end(key, outcome) {
    const p = this.waits.get(key);
    if (!p) return NotPending;
    if (this.late(p)) return Compensated;
    if (outcome === "crash") return Error;
    this.waits.delete(key);
    if (outcome === "done") this.done(key, p.action);
    if (outcome !== "fail" && (outcome === "done" || p.action === "execute")) {
      this.answers.set(key, outcome === "done" ? { status: 200, body: '"ended"' } : { status: 409, body: undefined });
    }
    return p.callback;
  }

  /** Whether an execute may no longer be done: it was compensated, or a later run has arrived. */
  late(call) {
    return call.action === "execute" && (call.run <= this.blocked || call.run < this.newest);
  }
}

async function play(seed, here, mistakes) {
  const random = generator(seed);
  const saga = randomUUID();
  const plan = {};
  let outcome, ran;
  const execute = async (call, tx) => {
    ran++;
    if (outcome === "later") return later();
    await here.effect(tx, call.key);
    switch (outcome) {
      case "refused": throw new Refused("NO");
      case "not_applied": throw new NotApplied();
      case "fail": throw new Error("a programming error");
    }
    return { n: random.below(1e9) };
  };
  let reported;
  const handle = participant({
    store: crashing(here.store, plan), execute, compensate: execute, cancel: execute, onError: () => {},
    fetch: async (url) => { reported = url; return new Response(); },
  });
  const end = async (key, how) => {
    const output = { done: "ended", crash: "ended", refused: new Refused("NO"), fail: new Error("failed") }[how];
    try {
      const report = await here.transaction(async (tx) => {
        if (output === "ended") await here.effect(tx, key);
        const made = await handle.finish(tx, key, output);
        if (how === "crash") throw new Error("killed");
        return made;
      });
      await report.send();
      return reported.split("/").at(-1);
    } catch (error) {
      return error.constructor;
    }
  };

  const model = new Model();
  let [run, undo, fence] = [1, 1, 1];
  const log = [];
  for (let n = 4 + random.below(10); n > 0; n--) {
    if (random.chance(0.2)) {
      const action = random.of(["execute", "execute", "compensate"]);
      const any = keyOf({ saga, action, run: 1 + random.below(action === "execute" ? run : undo) });
      const key = random.chance(0.3) ? any : random.of([...model.waits.keys(), any]);
      // A memory store has no transaction of the caller to roll back.
      const how = random.of(["done", "done", "refused", "fail", here.pool ? "crash" : "done"]);
      plan.crash = undefined;
      const [want, got] = [model.end(key, how), await end(key, how)];
      log.push(`end of ${key} ${how} -> ${got.name ?? got}`);
      if (got !== want) mistakes.push(`seed ${seed}: ${got}, not ${want}\n  ${log.join("\n  ")}`);
      continue;
    }
    // An operator starts another run only after the previous one was compensated or refused, and so
    // does this test.
    if (random.chance(0.2)) random.chance(0.8) ? run++ : undo++;
    if (random.chance(0.1)) fence++;
    const call = {
      callback: `c${n}`, saga, fence: random.chance(0.1) ? Math.max(1, fence - 1) : fence, attempt: 1 + random.below(5),
      ...random.chance(0.6)
        ? { action: "execute", run: random.chance(0.2) ? 1 + random.below(run) : run }
        : { action: "compensate", run: undo },
    };
    outcome = random.of(["done", "done", "done", "done", "later", "later", "refused", "not_applied", "fail"]);
    plan.crash = random.chance(0.25) ? random.of(["begin", "before", "after"]) : undefined;
    const copies = random.chance(0.2) ? 2 + random.below(3) : 1;
    // Concurrent calls with crashes and changing outcomes have no unique correct order.
    if (copies > 1) [plan.crash, outcome] = [undefined, "done"];
    ran = 0;
    const want = model.play(call, outcome, plan.crash);
    const answers = await Promise.all(Array.from({ length: copies }, async () => {
      const response = await handle(requestOf(call));
      return { status: response.status, body: await response.text() };
    }));
    log.push(`${keyOf(call)} fence ${call.fence} ${outcome} ${plan.crash ?? ""} -> ${answers[0].status}`);
    const wrong = (what) => mistakes.push(`seed ${seed}: ${what}\n  ${log.join("\n  ")}`);
    if (ran !== (want.runs ? 1 : 0)) wrong(`the function ran ${ran} times`);
    for (const answer of answers) {
      if (answer.status !== want.status) wrong(`answered ${answer.status}, not ${want.status}`);
      if (want.body !== undefined && answer.body !== want.body) wrong(`answered ${answer.body}, not ${want.body}`);
      if (answer.body !== answers[0].body) wrong("answers at once differ");
    }
    // From the first answer on, all must be equal.
    const known = model.answers.get(keyOf(call));
    if (known && known.status === answers[0].status && call.fence >= model.fence) known.body ??= answers[0].body;
  }
  return { saga, model };
}

async function campaign(sequences, here, first) {
  const mistakes = [];
  const models = [];
  for (let i = 0; i < sequences; i++) models.push(await play(first + i, here, mistakes));
  const counted = new Map();
  for (const key of await here.effects()) counted.set(key, (counted.get(key) ?? 0) + 1);
  let effects = 0;
  for (const { model } of models) {
    effects += model.effects.length;
    for (const key of model.effects) {
      if (counted.get(key) !== 1) mistakes.push(`${key} has ${counted.get(key) ?? 0} effects`);
    }
  }
  assert.deepEqual(mistakes.slice(0, 2), []);
  assert.equal([...counted.values()].reduce((a, b) => a + b, 0), effects, "effects that the model does not have");
  assert(effects > sequences, `only ${effects} effects: the sequences do too little`);
  console.log(`${sequences} sequences, ${effects} effects, 0 wrong`);
}

const first = Number(process.env.SEED ?? 1);
const inDatabases = Number(process.env.SEQUENCES_IN_DATABASES ?? 1_000);

test("10,000 random sequences in memory", () => campaign(10_000, inMemory(), first));

if (withPostgres) {
  describe("random sequences on PostgreSQL", () => {
    let here;
    before(async () => { here = await inPostgres("random_sequences"); });
    after(() => here?.end());
    test(`${inDatabases} of them`, () => campaign(inDatabases, here, first));
  });
}
