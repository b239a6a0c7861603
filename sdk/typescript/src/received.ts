/** The headers of a call: those of a Request, or of a server that represents them differently. */
export interface HeadersOf extends Iterable<[string, string]> {
  get(name: string): string | null;
}

/** A call as a server receives it. */
export interface Received {
  headers: HeadersOf;
  /** The next chunk of the body, undefined after the last. */
  next(): Promise<Uint8Array | undefined>;
  /** Says that the rest of the body is not needed. */
  cancel?(): Promise<void> | undefined;
}

/** The server's response. The body is JSON; "" for none. */
export interface Reply {
  status: number;
  body: string;
  /** In seconds. */
  retryAfter?: number | undefined;
}

/**
 * Answers a call without a Request and a Response, which in Node.js cost as much as a statement. An
 * application may contain this package twice, so both copies use the same symbol.
 */
export const serve: unique symbol = Symbol.for("@skald-saga/participant serve");

export function allOf(headers: HeadersOf): Headers {
  return headers instanceof Headers ? headers : new Headers([...headers]);
}

/** Not every runtime can iterate over a body stream. */
export function received(request: Request): Received {
  const reader = request.body?.getReader();
  return {
    headers: request.headers,
    next: async () => (await reader?.read())?.value,
    cancel: () => reader?.cancel(),
  };
}

/** Reads the body; undefined if it is too large. */
export async function wholeBody(call: Received, most: number): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for (let chunk = await call.next(); chunk; chunk = await call.next()) {
    size += chunk.length;
    if (size > most) {
      await call.cancel?.();
      return undefined;
    }
    chunks.push(chunk);
  }
  const body = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    body.set(chunk, at);
    at += chunk.length;
  }
  return body;
}
