import { allOf, type HeadersOf } from "./received.js";

/** One call of Skald, as a business function sees it. */
export interface Call<Payload = any> {
  /**
   * The Idempotency-Key, the same in every attempt. Pass it on to services that accept such keys
   * themselves.
   */
  readonly key: string;
  readonly tenant: string;
  readonly saga: string;
  readonly step: string;
  readonly action: "execute" | "compensate";
  readonly attempt: number;
  readonly fence: number;
  /** When Skald stops waiting for the answer; undefined if the header is missing. */
  readonly deadline: Date | undefined;
  readonly workflow: string;
  readonly payload: Payload;
  /** The outputs of the earlier steps, by name. */
  readonly outputs: Readonly<Record<string, any>>;
  /**
   * For a compensation: the input and output of the compensated step. The output is null if it
   * never arrived.
   */
  readonly input: any;
  readonly output: any;
  readonly headers: Headers;
  /**
   * Where to report the outcome of a call that is answered later; "" if the step definition has no
   * answer.later.
   */
  readonly callback: string;
  /** Which run of the step this is: 1, or the number after # in the key. */
  readonly run: number;
  /** SHA-256 of the body, in hexadecimal. */
  readonly digest: string;
}

/** A call that cannot be read. */
export class BadCall extends Error {}

/** Reads a call, or throws BadCall. */
export function readCall(headers: HeadersOf, body: Uint8Array<ArrayBuffer>, digest: string): Call {
  const key = headers.get("idempotency-key");
  if (!key) throw new BadCall("the header Idempotency-Key is missing");
  const envelope = parse(body);
  const { saga_id: saga, step, action } = envelope;
  if (typeof saga !== "string" || typeof step !== "string" || !saga || !step) {
    throw new BadCall("the body has no saga_id or no step");
  }
  if (action !== "execute" && action !== "compensate") throw new BadCall("the action is not execute or compensate");
  // The signature covers the body and the key, but not the other headers: they must not say something else.
  for (const [name, value] of [["x-saga-id", saga], ["x-saga-step", step], ["x-saga-action", action]] as const) {
    const given = headers.get(name);
    if (given !== null && given !== value && given !== encoded(value)) {
      throw new BadCall(`the header ${name} is not that of the body`);
    }
  }
  return {
    key, saga, step, action, run: runOf(key, action),
    tenant: headers.get("x-saga-tenant") ?? "",
    attempt: integer(headers, "x-saga-attempt", 1),
    fence: integer(headers, "x-saga-fence", 0),
    deadline: dateOf(headers.get("x-saga-deadline")),
    workflow: typeof envelope.workflow_name === "string" ? envelope.workflow_name : "",
    payload: envelope.payload, outputs: envelope.outputs ?? {},
    input: envelope.input, output: envelope.output ?? null,
    get headers() { return allOf(headers); },
    callback: headers.get("x-saga-callback") ?? "", digest,
  };
}

function parse(body: Uint8Array): Record<string, any> {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    throw new BadCall("the body is not JSON in UTF-8");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new BadCall("the body is not a JSON object");
  }
  return value;
}

const maxId = 600; // the length of the column id

/**
 * The id of the row with the state of a step's calls, as in the libraries of the other languages.
 * The saga comes first because its id increases with time.
 */
export async function idOf(call: Call): Promise<string> {
  const id = `${call.saga}/${call.tenant}/${escaped(call.step)}`;
  return id.length <= maxId && /^[\x20-\x7e]*$/.test(id) ? id : sha256(new TextEncoder().encode(id));
}

/**
 * The id of the row that says to which step a key that was answered later belongs. No step has such
 * an id.
 */
export async function nameOf(key: string): Promise<string> {
  return "later:" + await sha256(new TextEncoder().encode(key));
}

/** A path segment escaped as by Go's url.PathEscape. */
function escaped(segment: string): string {
  return segment.replace(/[^A-Za-z0-9\-_.~$&+=:@]+/gu, percent);
}

/**
 * The value as it appears in a header: characters that are not printable ASCII are percent-encoded.
 */
function encoded(value: string): string {
  return value.replace(/[^\x21-\x7e]+/gu, percent);
}

function percent(text: string): string {
  const bytes = Array.from(new TextEncoder().encode(text));
  return bytes.map((b) => "%" + b.toString(16).toUpperCase().padStart(2, "0")).join("");
}

function runOf(key: string, action: string): number {
  const suffix = /#([1-9]\d{0,8})$/.exec(key);
  return suffix && key.slice(0, suffix.index).endsWith("/" + action) ? Number(suffix[1]) : 1;
}

function integer(headers: HeadersOf, name: string, missing: number): number {
  const value = headers.get(name);
  if (value === null) return missing;
  if (!/^\d{1,15}$/.test(value)) throw new BadCall(`the header ${name} is not a number`);
  return Number(value);
}

function dateOf(text: string | null): Date | undefined {
  const date = new Date(text ?? NaN);
  return Number.isNaN(date.getTime()) ? undefined : date;
}

interface NodeCrypto {
  createHash(name: "sha256"): { update(data: Uint8Array): { digest(encoding: "hex"): string } };
}

// Web Crypto in Node.js uses another thread, which takes ten times as long for a small body.
const node = (globalThis as { process?: { getBuiltinModule?(name: string): unknown } }).process
  ?.getBuiltinModule?.("node:crypto") as NodeCrypto | undefined;

export async function sha256(body: Uint8Array<ArrayBuffer>): Promise<string> {
  if (node) return node.createHash("sha256").update(body).digest("hex");
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", body));
  return Array.from(hash, (b) => b.toString(16).padStart(2, "0")).join("");
}
