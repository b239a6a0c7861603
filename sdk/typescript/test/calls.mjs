// Calls as Skald makes them; see docs/participants.md.
import { createHmac } from "node:crypto";

export const defaultTenant = "00000000-0000-0000-0000-000000000001";

const encoded = (text) =>
  [...Buffer.from(text)].map((b) => (b > 0x20 && b < 0x7f ? String.fromCharCode(b) : "%" + b.toString(16).toUpperCase())).join("");

/** The Idempotency-Key of a call. */
export function keyOf({ tenant = defaultTenant, saga, step = "charge", action = "execute", run = 1 }) {
  const key = `${encoded(saga)}/${encoded(step)}/${action}` + (run > 1 ? `#${run}` : "");
  return tenant === defaultTenant ? key : `${tenant}/${key}`;
}

/** The envelope of a call, always in the same order. */
export function bodyOf(call) {
  const { saga, step = "charge", action = "execute", payload = { amount: 5 }, outputs = {}, members = {} } = call;
  const envelope = { saga_id: saga, workflow_name: "conformance", step, action, payload, outputs };
  if (action === "compensate") Object.assign(envelope, { input: payload, output: call.output ?? null });
  return JSON.stringify({ ...envelope, ...members });
}

export function sign(secret, id, seconds, body) {
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  return "v1," + createHmac("sha256", key).update(`${id}.${seconds}.${body}`).digest("base64");
}

const otherSecret = "whsec_" + Buffer.alloc(32, 7).toString("base64");

export function requestOf(call, secret) {
  let body = call.body ?? bodyOf(call);
  const key = keyOf(call);
  const headers = new Headers({
    "Content-Type": "application/json", "Idempotency-Key": key, "X-Saga-Id": call.saga,
    "X-Saga-Tenant": call.tenant ?? defaultTenant, "X-Saga-Step": encoded(call.step ?? "charge"),
    "X-Saga-Action": call.action ?? "execute", "X-Saga-Attempt": String(call.attempt ?? 1),
    "X-Saga-Fence": String(call.fence ?? 1), "X-Saga-Deadline": new Date(Date.now() + 60_000).toISOString(),
    traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
  });
  const how = call.sign ?? "good";
  if (secret && how !== "none") {
    const off = { old: -600, ahead: 600 }[how] ?? 0;
    const seconds = Math.floor(Date.now() / 1000) + off;
    headers.set("X-Saga-Timestamp", String(seconds));
    headers.set("X-Saga-Signature", sign(how === "wrong" ? otherSecret : secret, key, seconds, body));
    if (how === "changed") body = body.replace("amount", "Amount");
  }
  if (call.callback) headers.set("X-Saga-Callback", `https://skald.example/${call.callback}`);
  for (const [name, value] of Object.entries(call.headers ?? {})) headers.set(name, value);
  for (const name of call.without ?? []) headers.delete(name);
  return new Request("http://participant/", { method: "POST", headers, body });
}
