import type { Participant } from "./participant.js";
import { serve, type HeadersOf, type Reply } from "./received.js";

/** The part of a node:http request that is used. A request of Express has it too. */
export interface NodeRequest extends AsyncIterable<Uint8Array> {
  method?: string;
  headers: Record<string, string | string[] | undefined>;
}

/** The part of a node:http response that is used. */
export interface NodeResponse {
  writeHead(status: number, headers: Record<string, string>): unknown;
  end(body: Uint8Array): unknown;
}

/**
 * Makes a participant a listener for node:http, or a handler for Express. Nothing may have read the
 * body before: register it before express.json(). Pass the participant itself, not a function that
 * wraps it.
 */
export function toNode(participant: Participant<any>): (req: NodeRequest, res: NodeResponse) => Promise<void> {
  if (typeof participant[serve] !== "function") throw new TypeError("toNode needs what participant() has returned");
  return async (req, res) => {
    const chunks = req[Symbol.asyncIterator]();
    let reply: Reply;
    try {
      reply = await participant[serve]({
        headers: new NodeHeaders(req.headers),
        next: async () => (await chunks.next()).value,
      });
    } catch { // the body has not arrived completely
      reply = { status: 500, body: "" };
    }
    const bytes = new TextEncoder().encode(reply.body);
    const headers: Record<string, string> = { "content-length": String(bytes.length) };
    if (reply.body) headers["content-type"] = "application/json";
    if (reply.retryAfter !== undefined) headers["retry-after"] = String(reply.retryAfter);
    res.writeHead(reply.status, headers);
    res.end(bytes);
  };
}

class NodeHeaders implements HeadersOf {
  constructor(private readonly headers: NodeRequest["headers"]) {}

  get(name: string): string | null {
    const value = this.headers[name];
    return value === undefined ? null : [value].flat().join(", ");
  }

  *[Symbol.iterator](): Iterator<[string, string]> {
    for (const name in this.headers) yield [name, this.get(name) ?? ""];
  }
}
