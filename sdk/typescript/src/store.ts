import type { Step } from "./rule.js";

/** Keeps what is known of calls, in the same transactions as what the functions write. */
export interface Store<Tx> {
  /**
   * Begins a transaction that no other call of the step shares its time with, also none of another process:
   * it waits for that. An error means that nothing has happened.
   */
  begin(id: string): Promise<Session<Tx>>;
  /**
   * Forgets the steps whose last change was before a time, and returns how many. A call that comes after that
   * is taken for a new one, so keep steps for longer than any saga may be open: months.
   */
  purge(before: Date): Promise<number>;
}

/** One transaction. It ends with exactly one of commit and rollback. */
export interface Session<Tx> {
  /** What the functions write with. */
  readonly tx: Tx;
  readonly step: Step;
  /** Makes durable what the function has written, together with step. */
  commit(step: Step): Promise<void>;
  /** Removes what the function has written; makes step durable if there is one. */
  rollback(step?: Step): Promise<void>;
}
