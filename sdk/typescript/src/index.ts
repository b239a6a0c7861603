export { type Call } from "./call.js";
export { Compensated, NotApplied, NotPending, Refused, type RefusedOptions } from "./errors.js";
export { later, Later } from "./later.js";
export { memoryStore, type MemoryTx } from "./memory.js";
export { participant, type Handler, type Options, type Participant } from "./participant.js";
export type { Progress, Report } from "./report.js";
export type { Kept, Pending, Step } from "./rule.js";
export type { Joined, Session, Store } from "./store.js";
