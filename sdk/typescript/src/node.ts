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
 * before: register it before express.json().
 */
export function toNode(
  handle: (request: Request) => Promise<Response>,
): (req: NodeRequest, res: NodeResponse) => Promise<void> {
  return async (req, res) => {
    const headers = new Headers();
    for (const [name, value] of Object.entries(req.headers)) {
      for (const one of [value ?? []].flat()) headers.append(name, one);
    }
    const chunks = req[Symbol.asyncIterator]();
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        const { done, value } = await chunks.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
    });
    const init = { method: "POST", headers, body, duplex: "half" };
    let response: Response;
    try {
      response = await handle(new Request("http://participant/", init as RequestInit));
    } catch {
      response = new Response(null, { status: 500 });
    }
    const bytes = new Uint8Array(await response.arrayBuffer());
    const answer = { ...Object.fromEntries(response.headers), "content-length": String(bytes.length) };
    res.writeHead(response.status, answer);
    res.end(bytes);
  };
}
