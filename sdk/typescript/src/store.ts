import type { Step } from "./rule.js";

/** Stores the state of calls, in the same transactions as what the functions write. */
export interface Store<Tx> {
  /**
   * Begins a transaction that does not overlap with any other call of the step, in this or another
   * process: it waits for them. An error means that nothing has happened.
   */
  begin(id: string): Promise<Session<Tx>>;
  /**
   * To which step a name passed to commit belongs, undefined if to none; in a transaction that goes
   * on to write, if there is one.
   */
  find(name: string, tx?: Tx): Promise<string | undefined>;
  /** Locks a step in a transaction that the caller of finish ends. */
  join(tx: Tx, id: string): Promise<Joined>;
  /** Reads a step without a lock. */
  look(id: string): Promise<Step>;
  /** join does not lock: finish takes turns with the calls, as the calls do among themselves. */
  readonly withoutLocks?: boolean;
  /**
   * Deletes the steps whose last change was before a time, and returns how many. A call that
   * arrives after that is treated as new, so keep steps for months, longer than any saga may be
   * open.
   */
  purge(before: Date): Promise<number>;
}

/** A step within a transaction of the caller. */
export interface Joined {
  readonly step: Step;
  save(step: Step): Promise<void>;
}

/** One transaction. It ends with exactly one of commit and rollback. */
export interface Session<Tx> {
  /** The handle with which the functions write. */
  readonly tx: Tx;
  readonly step: Step;
  /**
   * Makes durable what the function has written, together with step and, if given, the fact that
   * name belongs to this step.
   */
  commit(step: Step, name?: string): Promise<void>;
  /** Rolls back what the function has written; makes step durable if there is one. */
  rollback(step?: Step): Promise<void>;
}
