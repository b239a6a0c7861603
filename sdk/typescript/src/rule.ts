import type { Call } from "./call.js";

/** What goes back to Skald. The body is JSON; "" for none. */
export interface Answer {
  status: number;
  body: string;
}

/** An answer that is given again. */
export interface Kept {
  /** SHA-256 of the body of the request, in hexadecimal. */
  digest: string;
  status: number;
  body?: string;
}

/** What is known of the calls of one step of one saga: the JSON in the table, the same in all languages. */
export interface Step {
  /** The highest fence seen. */
  fence: number;
  /** The newest run of execute that has come as far as the function; 0: none. */
  seen?: number;
  /** The run that was done and has not been compensated since; 0: none. */
  done?: number;
  /** The runs up to this one have been compensated, or may no longer be done. */
  blocked?: number;
  /** The answered calls, by key. */
  calls?: Record<string, Kept>;
}

/** What to do with a call: answer it, after storing step if there is one, or let the function do it. */
export type Verdict = { perform: true } | { perform: false; answer: Answer; step?: Step };

/** Decides about a call. It changes nothing. */
export function judge(step: Step, call: Call): Verdict {
  if (call.fence < step.fence) {
    return say(problem(409, "OLDER_FENCE", "another node has taken over this saga: the call is late"));
  }
  const known = Object.hasOwn(step.calls ?? {}, call.key) ? step.calls?.[call.key] : undefined;
  if (known && known.digest !== call.digest) {
    return say(problem(422, "KEY_REUSED", "the key came with another body before"));
  }
  const higher = call.fence > step.fence ? { ...step, fence: call.fence } : undefined;
  if (known) return say({ status: known.status, body: known.body ?? "" }, higher);
  if (call.action === "compensate") {
    if (step.done) return { perform: true };
    const nothing = { status: 200, body: "{}" }; // to undo; but from now on it may not be done
    return say(nothing, keep(step, call, nothing));
  }
  if (call.run <= (step.blocked ?? 0)) {
    return say(problem(409, "ALREADY_COMPENSATED", "the step was compensated before"), higher);
  }
  if (call.run < (step.seen ?? 0)) {
    return say(problem(409, "SUPERSEDED", "an operator has replaced this call by another one"), higher);
  }
  return { perform: true };
}

function say(answer: Answer, step?: Step): Verdict {
  return step ? { perform: false, answer, step } : { perform: false, answer };
}

/**
 * Records the final answer of a call. A refused compensation is not kept: the participant is repaired, and
 * asked again with the same key.
 */
export function keep(step: Step, call: Call, answer: Answer): Step {
  const done = answer.status < 300;
  const after = attempt(step, call);
  if (call.action === "compensate" && !done) return after;
  const kept: Kept = { digest: call.digest, status: answer.status, body: answer.body };
  after.calls = { ...step.calls, [call.key]: kept };
  if (done) after.done = call.action === "execute" ? call.run : 0;
  return after;
}

/**
 * Records that a call has come, but has no final answer. A compensation that follows must close this run as well,
 * after a compensation no execute from before it may be done, and an older node must not go on.
 */
export function attempt(step: Step, call: Call): Step {
  const { seen = 0, done = 0, blocked = 0 } = step;
  const after = { ...step, fence: call.fence, seen, blocked };
  if (call.action === "execute") {
    after.seen = Math.max(seen, call.run);
  } else if (done) {
    // No more is closed than has arrived: the run of a compensation may be ahead of that of its execute.
    after.blocked = Math.max(blocked, seen);
  } else {
    // If no execute has come since the compensation before, this one is for a run that never arrived: the next.
    after.blocked = Math.max(seen > blocked ? seen : blocked + 1, call.run);
  }
  return after;
}

export function problem(status: number, code: string, message: string, details: object = {}): Answer {
  return { status, body: JSON.stringify({ ...details, code, message }) };
}
