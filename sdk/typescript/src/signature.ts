import type { HeadersOf } from "./received.js";

const tolerance = 5 * 60; // seconds

/**
 * The keys in secrets such as `whsec_…`. Throws if one is malformed, so that this is found at the
 * start.
 */
export function keysOf(secrets: readonly string[]): Promise<CryptoKey[]> {
  return Promise.all(secrets.map((secret) => {
    const key = secret.startsWith("whsec_") ? bytesOf(secret.slice("whsec_".length)) : undefined;
    if (!key || key.length < 24 || key.length > 64) {
      throw new TypeError("a secret must be whsec_ followed by the base64 of 24 to 64 bytes");
    }
    return crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  }));
}

/**
 * Returns what is wrong with the signature of a call, undefined if it is valid. The body is as
 * received; now is in milliseconds.
 */
export async function signatureMistake(
  keys: readonly CryptoKey[], headers: HeadersOf, body: Uint8Array, now: number,
): Promise<string | undefined> {
  const id = headers.get("idempotency-key");
  const timestamp = headers.get("x-saga-timestamp") ?? "";
  const given = headers.get("x-saga-signature");
  if (!id || !given || !/^\d{1,15}$/.test(timestamp)) return "the call is not signed";
  if (Math.abs(now / 1000 - Number(timestamp)) > tolerance) return "the timestamp is too far from now";
  const start = new TextEncoder().encode(`${id}.${timestamp}.`);
  const signed = new Uint8Array(start.length + body.length);
  signed.set(start);
  signed.set(body, start.length);
  // Several header lines arrive joined by a comma and a space.
  for (const text of given.split(/[\s]+/)) {
    const signature = text.startsWith("v1,") ? bytesOf(text.slice(3).replace(/,$/, "")) : undefined;
    if (!signature) continue;
    for (const key of keys) {
      if (await crypto.subtle.verify("HMAC", key, signature, signed)) return undefined;
    }
  }
  return "no signature matches";
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> | undefined {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(base64) || base64.length % 4 !== 0) return undefined;
  return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}
