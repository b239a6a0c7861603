import type { Call } from "./call.js";

/** The answer to Skald. The body is JSON; "" for none. */
export interface Answer {
  status: number;
  body: string;
  /** Set while the call is answered later; this is the answer until then. */
  later?: Pending;
}

/** A stored answer that is repeated. */
export interface Kept {
  /** SHA-256 of the body of the request, in hexadecimal. */
  digest: string;
  status: number;
  body?: string;
  later?: Pending;
}

/** The state of a call that was answered later. */
export interface Pending {
  /** The newest callback, which came with attempt. */
  callback: string;
  attempt: number;
  action: "execute" | "compensate";
  run: number;
  /** An execute that was compensated: there is nothing to cancel. */
  over?: boolean;
}

/**
 * The state of the calls of one step of one saga: the JSON in the table, the same in all languages.
 */
export interface Step {
  /** The highest fence seen. */
  fence: number;
  /** The newest run of execute that has reached the function; 0: none. */
  seen?: number;
  /** The run that was done and has not been compensated since; 0: none. */
  done?: number;
  /** Runs up to this one have been compensated, or may no longer be done. */
  blocked?: number;
  /** The answered calls, by key. */
  calls?: Record<string, Kept>;
}

/** What to do with a call: answer it, after storing step if it is set, or call the function. */
export type Verdict = { perform: true } | { perform: false; answer: Answer; step?: Step };

/** Decides what to do with a call. It changes nothing. */
export function judge(step: Step, call: Call): Verdict {
  if (call.fence < step.fence) {
    return say(problem(409, "OLDER_FENCE", "another node has taken over this saga: the call is late"));
  }
  const known = Object.hasOwn(step.calls ?? {}, call.key) ? step.calls?.[call.key] : undefined;
  if (known && known.digest !== call.digest) {
    return say(problem(422, "KEY_REUSED", "the key came with another body before"));
  }
  const higher = call.fence > step.fence ? { ...step, fence: call.fence } : undefined;
  if (known?.later) return again(step, call, known, known.later);
  if (known) return say({ status: known.status, body: known.body ?? "" }, higher);
  const late = call.action === "execute" && closed(step, call.run);
  if (late) return say(late, higher);
  if (pendings(step).some((p) => p.action === "compensate")) { // what it undoes must not change meanwhile
    return say(problem(425, "NOT_APPLIED", "a compensation of the step goes on"), higher);
  }
  if (call.action === "compensate" && !step.done && !begun(step)) {
    const nothing = { status: 200, body: "{}" }; // to undo; but from now on it may not be done
    return say(nothing, keep(step, call, nothing));
  }
  return { perform: true };
}

/** Why an execute may no longer be done; undefined if it may. */
function closed(step: Step, run: number): Answer | undefined {
  if (run <= (step.blocked ?? 0)) return problem(409, "ALREADY_COMPENSATED", "the step was compensated before");
  if (run < (step.seen ?? 0)) return problem(409, "SUPERSEDED", "an operator has replaced this call by another one");
  return undefined;
}

function pendings(step: Step): Pending[] {
  return Object.values(step.calls ?? {}).flatMap(({ later }) => later ?? []);
}

/** Whether the newest execute was answered later, is not finished, and is not compensated. */
function begun(step: Step): boolean {
  return pendings(step).some((p) => p.action === "execute" && p.run === step.seen && !p.over);
}

/** The answer to a repeat of a call that was answered later. */
function again(step: Step, call: Call, known: Kept, p: Pending): Verdict {
  const seen = { ...step, fence: call.fence };
  const higher = call.fence > step.fence ? seen : undefined;
  const late = p.action === "execute" && closed(step, p.run);
  if (late) return say(late, higher);
  if (!call.callback) { // Skald would interpret 202 as success
    const why = "the call was answered later, but this one has no X-Saga-Callback";
    return say(problem(503, "STILL_AT_WORK", why), higher);
  }
  const answer = { status: known.status, body: known.body ?? "" };
  // Attempts may overtake each other.
  if (call.attempt < p.attempt || call.callback === p.callback) return say(answer, higher);
  const later = { ...p, callback: call.callback, attempt: call.attempt };
  return say(answer, { ...seen, calls: { ...step.calls, [call.key]: { ...known, later } } });
}

/** The state of a call that is waiting for its end, or the reason why it is not waiting. */
export function pending(step: Step, key: string): Kept & { later: Pending } | "not pending" | "compensated" {
  const known = Object.hasOwn(step.calls ?? {}, key) ? step.calls?.[key] : undefined;
  if (!known?.later) return "not pending";
  if (known.later.action === "execute" && closed(step, known.later.run)) return "compensated";
  return { ...known, later: known.later };
}

/** Stores the answer of a waiting call. Without an answer, a repeated call calls the function. */
export function finished(step: Step, key: string, answer: Answer | undefined): Step {
  const known = step.calls?.[key];
  if (!known?.later) throw new Error("the call does not wait");
  const { action, run } = known.later;
  const done = answer !== undefined && answer.status < 300;
  const calls = { ...step.calls };
  delete calls[key];
  if (!answer || (action === "compensate" && !done)) return { ...step, calls };
  const after = { ...step, calls: { ...calls, [key]: { digest: known.digest, ...answer } } };
  if (!done) return after;
  return action === "execute" ? { ...after, done: run } : undone(after);
}

/** Records that there is nothing left to undo. */
function undone(step: Step): Step {
  const calls = Object.entries(step.calls ?? {}).map(([key, kept]): [string, Kept] =>
    [key, kept.later?.action === "execute" ? { ...kept, later: { ...kept.later, over: true } } : kept]);
  return { ...step, done: 0, calls: Object.fromEntries(calls) };
}

function say(answer: Answer, step?: Step): Verdict {
  return step ? { perform: false, answer, step } : { perform: false, answer };
}

/**
 * Records the final answer of a call. A refused compensation is not stored: after the participant
 * is repaired, Skald asks it again with the same key.
 */
export function keep(step: Step, call: Call, answer: Answer): Step {
  const done = answer.status < 300;
  const after = attempt(step, call);
  if (call.action === "compensate" && !done) return after;
  after.calls = { ...step.calls, [call.key]: { digest: call.digest, ...answer } };
  if (!done || answer.later) return after;
  return call.action === "execute" ? { ...after, done: call.run } : undone(after);
}

/**
 * Records that a call has arrived but has no final answer. A later compensation must close this run
 * as well, no execute from before a compensation may be done after it, and an older node must not
 * continue.
 */
export function attempt(step: Step, call: Call): Step {
  const { seen = 0, done = 0, blocked = 0 } = step;
  const after = { ...step, fence: call.fence, seen, blocked };
  if (call.action === "execute") {
    after.seen = Math.max(seen, call.run);
  } else if (done || begun(step)) {
    // Only runs that have arrived are closed: the run of a compensation may be higher than that of
    // its execute.
    after.blocked = Math.max(blocked, seen);
  } else {
    // If no execute has arrived since the previous compensation, this one belongs to a run that
    // never arrived: the next one.
    after.blocked = Math.max(seen > blocked ? seen : blocked + 1, call.run);
  }
  return after;
}

export function problem(status: number, code: string, message: string, details: object = {}): Answer {
  return { status, body: JSON.stringify({ ...details, code, message }) };
}
