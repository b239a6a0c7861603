/** How far the work has progressed. */
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
const longestAskedMs = 300_000; // how long a Retry-After is honoured
const timeoutMs = 15_000;

/** Reports to Skald how a call that was answered later ended. */
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
   * Posts the report to the newest callback, and retries as long as that is useful. Call it after
   * the commit. It returns when Skald has the report, even if the report came too late to matter.
   * If it throws, no harm is done: Skald repeats the call when its wait is over, and then gets the
   * answer.
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
  /** 0 means that there was no answer. */
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
    // A report is sent only to the callback that Skald requested.
    const init: RequestInit = { method: "POST", headers, body, redirect: "manual", signal: ended.signal };
    const response = await fetch(url, init);
    await response.arrayBuffer(); // so that the connection can be used again
    return { status: response.status || 307, asked: askedMs(response.headers.get("retry-after"), Date.now()) };
  } catch (error) {
    return { status: 0, error: error instanceof Error ? error.name : "no answer" }; // the address contains a token
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
}

/**
 * The time before the attempt after attempt n, counting from 0. A requested delay has precedence.
 */
export function pauseMs(n: number, asked: number | undefined): number {
  if (asked !== undefined) return Math.min(asked, longestAskedMs);
  return Math.min(firstPauseMs * 2 ** Math.min(n, 10), longestPauseMs) * (1 - Math.random() / 2);
}

/** The delay that a Retry-After requests, in milliseconds. */
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
