export { type Call } from "./call.js";
export { NotApplied, Refused, type RefusedOptions } from "./errors.js";
export { memoryStore, type MemoryTx } from "./memory.js";
export { participant, type Handler, type Options } from "./participant.js";
export type { Kept, Step } from "./rule.js";
export type { Session, Store } from "./store.js";
