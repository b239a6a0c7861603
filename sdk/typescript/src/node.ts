import type { Participant } from "./participant.js";
import { serve, type HeadersOf, type Reply } from "./received.js";

/** What is used of a request of node:http, which is also one of Express. */
export interface NodeRequest extends AsyncIterable<Uint8Array> {
  method?: string;
  headers: Record<string, string | string[] | undefined>;
}

/** What is used of a response of node:http. */
export interface NodeResponse {
  writeHead(status: number, headers: Record<string, string>): unknown;
  end(body: Uint8Array): unknown;
}

/**
 * Makes a participant a listener for node:http, or a handler for Express. Nothing may have read the body
 * before: register it before express.json(). A function around a participant is not one.
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
    } catch { // the body has not arrived whole
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
