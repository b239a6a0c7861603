import type { Call } from "./call.js";
import { NotApplied, Refused } from "./errors.js";
import { problem, type Answer, type Pending } from "./rule.js";

/** What a function returns that answers later. */
export class Later {}

/**
 * `return later()`: the call is answered later. What the function wrote, such as a note of the work, is committed with
 * it; the worker ends it with `finish`, and until then repeats get the same answer without the function.
 *
 * The definition of the step must say which answer means later (answer.later, as `status == 202`); Skald then sends
 * `call.callback`. If it did not, this is an error, because Skald would take the answer for done.
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
 * Returns whether a callback is at one of the origins. They are compared as texts up to the first slash, so that no two
 * readers of URLs can disagree about the host. Throws if one is malformed, so that this is found at the start.
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

/** How the work has ended: the answer of later repeats, if there is one, and the body of the report. */
export interface End {
  answer: Answer | undefined;
  report(p: Pending): string;
}

/** The end of what has this output, or has failed with this error. */
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

/** The JSON of an output; "" for none. */
export function bodyOf(output: unknown): string {
  return output === undefined ? "" : JSON.stringify(output) ?? "";
}
