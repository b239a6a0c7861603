import { BadCall, idOf, nameOf, readCall, sha256, type Call } from "./call.js";
import { Compensated, NotApplied, NotPending, Refused } from "./errors.js";
import { bodyOf, endOf, Later, promised, reportsToAny } from "./later.js";
import { received, serve, wholeBody, type Received, type Reply } from "./received.js";
import { beat, Report, type Progress } from "./report.js";
import { attempt, finished, judge, keep, pending, problem, type Answer, type Step } from "./rule.js";
import { keysOf, signatureMistake } from "./signature.js";
import type { Session, Store } from "./store.js";
import { Turns } from "./turns.js";

/** A business function. It writes with tx; its return value is the output of the step. */
export type Handler<Tx, Payload> = (call: Call<Payload>, tx: Tx) => unknown;

export interface Options<Tx, Payload = any> {
  store: Store<Tx>;
  execute: Handler<Tx, Payload>;
  /**
   * Called only for steps that were done and have not been compensated; without it, their
   * compensation is refused.
   */
  compensate?: Handler<Tx, Payload>;
  /**
   * Undoes what execute wrote when it answered later, if a compensation arrives before the work is
   * finished: finish throws from then on. Without it nothing is undone, for example if execute only
   * noted the work.
   */
  cancel?: Handler<Tx, Payload>;
  /** The secrets of participants.signing_secrets. Without them, signatures are not verified. */
  secrets?: readonly string[];
  /**
   * The origins of Skald's server.public_url, such as https://skald.example: a call with a callback
   * elsewhere is refused, because X-Saga-Callback is not signed. Without them, reports go wherever
   * the call says.
   */
  callbackOrigins?: readonly string[];
  /** How long a repeat waits for the call in progress before it gets 425. Default: 2 seconds. */
  waitMs?: number;
  /** Larger bodies are refused. Default: 16 MiB, like limits.max_request_bytes. */
  maxBodyBytes?: number;
  /**
   * Receives the errors that the functions or the store throw. Default: writes them to the console.
   */
  onError?: (error: unknown, call?: Call<Payload>) => void;
  /** Sends the reports about calls that were answered later. Default: fetch. */
  fetch?: (input: string, init: RequestInit) => Promise<Response>;
  /** The clock for signatures, in milliseconds. */
  now?: () => number;
}

/**
 * A participant: a function that answers Skald's calls, and functions that finish the calls that
 * were answered later.
 */
export interface Participant<Tx> {
  (request: Request): Promise<Response>;
  /** Called by toNode. */
  readonly [serve]: (request: Received) => Promise<Reply>;
  /**
   * Finishes the work of a call that was answered later: stores the final answer of the call in a
   * transaction of yours, in which the effects of the work are written. All later repeats of the
   * call get this answer, byte for byte. Send the report after the commit. If the report is lost,
   * no harm is done: Skald repeats the call when its wait is over.
   *
   * An Error in place of the output means that the work was not done: Refused is a permanent
   * refusal; after NotApplied or any other error, a repeated call calls the function. The
   * transaction should then also undo what the function wrote when it answered later, because no
   * compensation will follow to do so.
   *
   * If it throws, roll back: Compensated, NotPending, or the database's error. A memory store
   * ignores tx.
   */
  finish(tx: Tx, key: string, output?: unknown): Promise<Report>;
  /** Tells Skald once that the work is still going on, which restarts the wait. */
  heartbeat(key: string, progress?: Progress): Promise<void>;
}

/**
 * Returns a participant: a function that answers Skald's calls, both actions and compensations. It
 * follows the rules of docs/participants.md.
 */
export function participant<Tx, Payload = any>(
  options: Options<Tx, Payload>,
): Participant<Tx> {
  const { store, waitMs = 2000, maxBodyBytes = 16 << 20, now = Date.now } = options;
  const onError = options.onError ?? ((error) => console.error(error));
  if (options.secrets?.length === 0) throw new TypeError("secrets must have a secret, or be undefined");
  const keys = options.secrets && keysOf(options.secrets);
  keys?.catch(() => {}); // the first call fails with it
  const reportsTo = reportsToAny(options.callbackOrigins);
  const turns = new Turns();
  const send = options.fetch ?? ((input, init) => fetch(input, init));

  async function handle(request: Request): Promise<Response> {
    const { status, body, retryAfter } = await served(received(request));
    const headers = new Headers();
    if (body) headers.set("Content-Type", "application/json");
    if (retryAfter !== undefined) headers.set("Retry-After", String(retryAfter));
    return new Response(body || null, { status, headers });
  }

  async function served(request: Received): Promise<Reply> {
    let call: Call<Payload> | undefined;
    try {
      const body = await wholeBody(request, maxBodyBytes);
      if (!body) return problem(413, "TOO_LARGE", `the body is larger than ${maxBodyBytes} bytes`);
      const mistake = keys && await signatureMistake(await keys, request.headers, body, now());
      if (mistake) return problem(401, "SIGNATURE", mistake);
      call = readCall(request.headers, body, await sha256(body));
      if (!reportsTo(call.callback)) {
        return problem(403, "CALLBACK_ORIGIN", "this participant does not report to X-Saga-Callback");
      }
      return await inTurn(call);
    } catch (error) {
      if (error instanceof BadCall) return problem(400, "CALL_INVALID", error.message);
      onError(error, call);
      return problem(500, "FAILED", "the call failed; it may be repeated");
    }
  }

  async function finish(tx: Tx, key: string, output?: unknown): Promise<Report> {
    const end = endOf(output);
    const id = await store.find(await nameOf(key), tx);
    if (id === undefined) throw new NotPending();
    const leave = store.withoutLocks ? await turns.take(id, waitMs) : () => {};
    if (!leave) throw new Error("a call of this step is in progress");
    try {
      const joined = await store.join(tx, id);
      const { later } = waiting(joined.step, key);
      const report = new Report(send, later.callback, end.report(later));
      await joined.save(finished(joined.step, key, end.answer));
      return report;
    } finally {
      leave();
    }
  }

  async function heartbeat(key: string, progress?: Progress): Promise<void> {
    const id = await store.find(await nameOf(key));
    if (id === undefined) throw new NotPending();
    await beat(send, waiting(await store.look(id), key).later.callback, progress);
  }

  async function inTurn(call: Call<Payload>): Promise<Reply> {
    const id = await idOf(call);
    const leave = await turns.take(id, waitMs);
    if (!leave) return { ...problem(425, "IN_PROGRESS", "another call of this step is in progress"), retryAfter: 1 };
    try {
      let session: Session<Tx>;
      try {
        session = await store.begin(id);
      } catch (error) {
        onError(error, call);
        return { ...problem(425, "NOT_APPLIED", "the store is not available"), retryAfter: 1 };
      }
      return await answered(session, call);
    } finally {
      leave();
    }
  }

  async function answered(session: Session<Tx>, call: Call<Payload>): Promise<Reply> {
    const verdict = judge(session.step, call);
    if (!verdict.perform) {
      if (verdict.step) await session.commit(verdict.step);
      else await session.rollback();
      return verdict.answer;
    }
    let answer: Answer;
    try {
      answer = await performed(session, call);
    } catch (error) {
      return await failed(session, call, error);
    }
    // The answer is sent only when it is durable. If commit throws, the outcome is unknown: 500.
    await session.commit(keep(session.step, call, answer), answer.later && await nameOf(call.key));
    return answer;
  }

  async function performed({ tx, step }: Session<Tx>, call: Call<Payload>): Promise<Answer> {
    const unfinished = call.action === "compensate" && !step.done;
    if (unfinished && !options.cancel) return { status: 200, body: "{}" };
    const perform = unfinished ? options.cancel : options[call.action];
    if (!perform) throw new Refused("NO_COMPENSATION", "this participant cannot undo the step");
    const output = await perform(call, tx);
    return output instanceof Later ? promised(call) : { status: 200, body: bodyOf(output) };
  }

  async function failed(session: Session<Tx>, call: Call<Payload>, error: unknown): Promise<Reply> {
    if (error instanceof Refused) {
      const answer = problem(error.status, error.code, error.message, error.details);
      await session.rollback(keep(session.step, call, answer));
      return answer;
    }
    try {
      await session.rollback(attempt(session.step, call));
    } catch (broken) {
      onError(broken, call); // the connection is closed, which rolls everything back
    }
    if (!(error instanceof NotApplied)) throw error;
    const seconds = error.retryAfterMs === undefined ? undefined : Math.ceil(error.retryAfterMs / 1000);
    return { ...problem(425, "NOT_APPLIED", error.message), retryAfter: seconds };
  }

  return Object.assign(handle, { finish, heartbeat, [serve]: served });
}

function waiting(step: Step, key: string) {
  const known = pending(step, key);
  if (known === "not pending") throw new NotPending();
  if (known === "compensated") throw new Compensated();
  return known;
}
