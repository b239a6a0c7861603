import type { Step } from "./rule.js";

/** Keeps what is known of calls, in the same transactions as what the functions write. */
export interface Store<Tx> {
  /**
   * Begins a transaction that no other call of the step shares its time with, also none of another process:
   * it waits for that. An error means that nothing has happened.
   */
  begin(id: string): Promise<Session<Tx>>;
  /** Which step a name of commit is of, undefined if of none; in a transaction that goes on to write, if there is one. */
  find(name: string, tx?: Tx): Promise<string | undefined>;
  /** Locks a step in a transaction that the caller of finish ends. */
  join(tx: Tx, id: string): Promise<Joined>;
  /** Reads a step without a lock. */
  look(id: string): Promise<Step>;
  /** join does not lock: finish takes turns with the calls, as those do among themselves. */
  readonly withoutLocks?: boolean;
  /**
   * Forgets the steps whose last change was before a time, and returns how many. A call that comes after that
   * is taken for a new one, so keep steps for longer than any saga may be open: months.
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
  /** What the functions write with. */
  readonly tx: Tx;
  readonly step: Step;
  /** Makes durable what the function has written, together with step; and that name is one of this step, if given. */
  commit(step: Step, name?: string): Promise<void>;
  /** Removes what the function has written; makes step durable if there is one. */
  rollback(step?: Step): Promise<void>;
}
