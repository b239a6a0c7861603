import type { Call } from "./call.js";
import { NotApplied, Refused } from "./errors.js";
import { problem, type Answer, type Pending } from "./rule.js";

/** What a function returns to answer later. */
export class Later {}

/**
 * `return later()`: the call is answered later. What the function wrote, such as a note of the
 * work, is committed together with this answer; the worker finishes it with `finish`. Until then,
 * repeated calls get the same answer without calling the function.
 *
 * The step definition must say which answer means later (answer.later, for example `status ==
 * 202`); Skald then sends `call.callback`. Without it, this is an error, because Skald would
 * interpret the answer as success.
 */
export function later(): Later {
  return new Later();
}

/** The answer to a call whose function answered later. */
export function promised(call: Call): Answer {
  const { callback, attempt, action, run } = call;
  const { protocol } = URL.canParse(callback) ? new URL(callback) : { protocol: "" };
  if (protocol !== "https:" && protocol !== "http:") {
    throw new Error(`answered later, but X-Saga-Callback is "${callback}": the step's definition has no answer.later`);
  }
  return { status: 202, body: '{"later":true}', later: { callback, attempt, action, run } };
}

/**
 * Returns whether a callback is at one of the origins. They are compared as strings up to the first
 * slash, so that two URL parsers cannot disagree about the host. Throws if an origin is malformed,
 * so that this is found at the start.
 */
export function reportsToAny(origins: readonly string[] | undefined): (callback: string) => boolean {
  if (!origins) return () => true;
  for (const origin of origins) {
    if (!/^https?:/.test(origin) || !URL.canParse(origin) || new URL(origin).origin !== origin) {
      throw new TypeError(`"${origin}" is not an origin such as https://skald.example`);
    }
  }
  if (origins.length === 0) throw new TypeError("callbackOrigins must have an origin, or be undefined");
  return (callback) => callback === "" || origins.some((origin) => callback.startsWith(origin + "/"));
}

/**
 * How the work ended: the answer for later repeated calls, if there is one, and the body of the
 * report.
 */
export interface End {
  answer: Answer | undefined;
  report(p: Pending): string;
}

/** The end of work that produced this output or failed with this error. */
export function endOf(output: unknown): End {
  if (output instanceof Later) throw new TypeError("a call cannot be finished with later()");
  if (output instanceof Refused) {
    const answer = problem(output.status, output.code, output.message, output.details);
    return { answer, report: () => `{"result":"refused","error":${answer.body}}` };
  }
  if (output instanceof Error) {
    const [result, code] = output instanceof NotApplied ? ["not_applied", "NOT_APPLIED"] : ["unknown", "FAILED"];
    const { body } = problem(0, code, output.message);
    return { answer: undefined, report: () => `{"result":"${result}","error":${body}}` };
  }
  const answer = { status: 200, body: bodyOf(output) };
  const done = ({ action }: Pending): string =>
    action === "execute" && answer.body ? `{"result":"done","output":${answer.body}}` : '{"result":"done"}';
  return { answer, report: done };
}

/** The output as JSON; "" if there is none. */
export function bodyOf(output: unknown): string {
  return output === undefined ? "" : JSON.stringify(output) ?? "";
}
