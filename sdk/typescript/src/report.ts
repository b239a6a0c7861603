/** How far the work has come. */
export interface Progress {
  /** 0 to 100. */
  percent?: number;
  /** For operators; Skald keeps the first 1,000 characters. */
  message?: string;
}

type Fetch = (input: string, init: RequestInit) => Promise<Response>;

const attempts = 20; // about eight minutes
const firstPauseMs = 500;
const longestPauseMs = 30_000;
const longestAskedMs = 300_000; // that a Retry-After is honoured
const timeoutMs = 15_000;

/** Tells Skald how a call that was answered later has ended. */
export class Report {
  readonly #fetch: Fetch;
  readonly #url: string;
  readonly #body: string;

  constructor(fetch: Fetch, url: string, body: string) {
    this.#fetch = fetch;
    this.#url = url;
    this.#body = body;
  }

  /**
   * Posts the report to the newest callback, repeatedly while that is of use. Call it after the commit. It returns when
   * Skald has the report, also if it came too late to matter. If it throws, nothing is lost: Skald repeats the call when
   * it has waited long enough, and gets the answer then.
   */
  async send(signal?: AbortSignal): Promise<void> {
    for (let n = 0; ; n++) {
      signal?.throwIfAborted();
      const { status, asked, error } = await post(this.#fetch, this.#url, this.#body, signal);
      if ((status >= 200 && status < 300) || status === 409) return;
      const again = error !== undefined || status >= 500 || [408, 425, 429].includes(status);
      if (!again || n + 1 === attempts) {
        throw new Error("the report was not delivered: " + (error ?? `answered with ${status}`));
      }
      await sleep(pauseMs(n, asked), signal);
    }
  }
}

/** Sends one heartbeat. */
export async function beat(fetch: Fetch, url: string, progress: Progress | undefined): Promise<void> {
  const members = progress && { progress };
  const { status, error } = await post(fetch, url, JSON.stringify({ result: "heartbeat", ...members }));
  if (status < 200 || status > 299) {
    throw new Error("the heartbeat was not accepted: " + (error ?? `answered with ${status}`));
  }
}

interface Posted {
  /** 0: there was no answer. */
  status: number;
  asked?: number | undefined;
  error?: string;
}

async function post(fetch: Fetch, url: string, body: string, signal?: AbortSignal): Promise<Posted> {
  const ended = new AbortController();
  const abort = (): void => ended.abort();
  const timer = setTimeout(abort, timeoutMs);
  signal?.addEventListener("abort", abort);
  try {
    const headers = { "Content-Type": "application/json" };
    // A report goes to where Skald asked for it, and to nowhere else.
    const init: RequestInit = { method: "POST", headers, body, redirect: "manual", signal: ended.signal };
    const response = await fetch(url, init);
    await response.arrayBuffer(); // so that the connection can be used again
    return { status: response.status || 307, asked: askedMs(response.headers.get("retry-after"), Date.now()) };
  } catch (error) {
    return { status: 0, error: error instanceof Error ? error.name : "no answer" }; // the address has a token
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
}

/** The time before the attempt after attempt n, from 0. What was asked for goes before. */
export function pauseMs(n: number, asked: number | undefined): number {
  if (asked !== undefined) return Math.min(asked, longestAskedMs);
  return Math.min(firstPauseMs * 2 ** Math.min(n, 10), longestPauseMs) * (1 - Math.random() / 2);
}

/** What a Retry-After asks for, in milliseconds. */
export function askedMs(value: string | null, now: number): number | undefined {
  if (value === null || value === "") return undefined;
  if (/^\d+$/.test(value)) return Number(value) * 1000;
  const at = /[a-z]/i.test(value) ? Date.parse(value) : NaN;
  return Number.isNaN(at) ? undefined : Math.max(0, at - now);
}

function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", abort, { once: true });
  });
}
