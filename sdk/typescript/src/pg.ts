import type { Step } from "./rule.js";
import type { Joined, Session, Store } from "./store.js";

/** The part of a client of the package pg that is used. */
export interface PgClient {
  query(text: string): Promise<any>;
  release(error?: Error | boolean): void;
  on(event: "error", listener: (error: Error) => void): unknown;
  removeListener(event: "error", listener: (error: Error) => void): unknown;
}

/** The part of a Pool of the package pg that is used. */
export interface PgPool<Client extends PgClient> {
  connect(): Promise<Client>;
  // Never called. With both signatures of pg.Pool, TypeScript can infer Client.
  connect(callback: (...args: any[]) => void): void;
}

/** The statements that create the table: add them to the participant's migrations. */
export const migration = `CREATE TABLE skald_calls (
    id         varchar(600) COLLATE "C" PRIMARY KEY,
    state      text         NOT NULL,
    changed_at bigint       NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX skald_calls_changed_at ON skald_calls (changed_at);
`;

const purgeBatch = 1000;

/**
 * Stores the state of calls in the table skald_calls. The functions get a client of the pool,
 * inside the transaction, which they must not end.
 */
export function pgStore<Client extends PgClient>(pool: PgPool<Client>): Store<Client> {
  return {
    async begin(id) {
      const session = new PgSession(await pool.connect(), id);
      await session.open();
      return session;
    },
    async find(name, tx) {
      const read = async (client: Client): Promise<string | undefined> =>
        (await client.query(selected(name))).rows[0]?.state;
      return tx ? await read(tx) : await within(read);
    },
    async look(id) {
      return within(async (client) => parsed((await client.query(selected(id))).rows[0]?.state));
    },
    join: joined,
    async purge(before) {
      return within(async (client) => {
        for (let purged = 0; ;) {
          const batch = (await client.query(`DELETE FROM skald_calls WHERE id IN
            (SELECT id FROM skald_calls WHERE changed_at < ${seconds(before.getTime())}
             ORDER BY changed_at LIMIT ${purgeBatch} FOR UPDATE SKIP LOCKED)`)).rowCount ?? 0;
          purged += batch;
          if (batch < purgeBatch) return purged;
        }
      });
    },
  };

  async function within<T>(read: (client: Client) => Promise<T>): Promise<T> {
    const client = await pool.connect();
    try {
      return await read(client);
    } finally {
      client.release();
    }
  }
}

/**
 * The step is locked until the caller ends the transaction; a concurrent call in another process
 * waits for that.
 */
async function joined(tx: PgClient, id: string): Promise<Joined> {
  const { rows } = await tx.query(claimed(id));
  return {
    step: parsed(rows[0].state),
    save: async (step) => void await tx.query(saved(id, step)),
  };
}

/** Creates the row of a step, or locks it and then reads it. */
function claimed(id: string): string {
  return `INSERT INTO skald_calls (id, state, changed_at) VALUES (${literal(id)}, '', ${seconds(Date.now())})
    ON CONFLICT (id) DO UPDATE SET changed_at = excluded.changed_at RETURNING state`;
}

function saved(id: string, step: Step): string {
  return `UPDATE skald_calls SET state = ${literal(JSON.stringify(step))} WHERE id = ${literal(id)}`;
}

function selected(id: string): string {
  return `SELECT state FROM skald_calls WHERE id = ${literal(id)}`;
}

function parsed(state: string | undefined): Step {
  return state ? JSON.parse(state) : { fence: 0 };
}

// Prepared once per connection, because planning costs more than executing these statements. The Go
// library prepares the same ones, so a pooler may hand its sessions from one library to the other.
const prepare = `PREPARE skald_claim_1 (text, bigint) AS
INSERT INTO skald_calls (id, state, changed_at) VALUES ($1, '', $2) ON CONFLICT (id) DO NOTHING;
PREPARE skald_save_1 (text, bigint, text) AS UPDATE skald_calls SET state = $1, changed_at = $2 WHERE id = $3`;
const prepared = new WeakSet<PgClient>();
const [duplicateStatement, unknownStatement] = ["42P05", "26000"];

/**
 * A transaction takes two round trips besides those of the function, as many as BEGIN and COMMIT
 * alone, because several statements are sent at once. PostgreSQL accepts no parameters with these,
 * so values are literals. A separate query is needed only to read a step that already has a row,
 * because of a repeat or a compensation.
 */
class PgSession<Client extends PgClient> implements Session<Client> {
  step: Step = { fence: 0 };
  // A connection that breaks between two queries emits an event, which ends the process if there is
  // no listener.
  readonly #broken = () => {};

  constructor(readonly tx: Client, private readonly id: string) {
    tx.on("error", this.#broken);
  }

  /**
   * Creates the row of the step, or locks it and then reads it: a concurrent call in another
   * process waits here. If a function refuses or throws, its changes are rolled back to the
   * savepoint, which keeps the lock.
   */
  async open(): Promise<void> {
    try {
      if (await this.#claim()) return;
      // Rolling back to a savepoint releases the locks taken after it, so a new savepoint follows.
      const [{ rows: [row] }] = await this.tx.query(`${selected(this.id)} FOR UPDATE; SAVEPOINT skald`);
      if (!row) throw new Error("the step was forgotten at this moment");
      this.step = parsed(row.state);
    } catch (error) {
      this.#release(true);
      throw error;
    }
  }

  /** Begins the transaction; returns whether the step had no row. */
  async #claim(): Promise<boolean> {
    const message = `BEGIN ISOLATION LEVEL READ COMMITTED;
      EXECUTE skald_claim_1(${literal(this.id)}, ${seconds(Date.now())}); SAVEPOINT skald`;
    const known = prepared.has(this.tx);
    if (!known) await this.#prepare();
    let results;
    try {
      results = await this.tx.query(message);
    } catch (error) {
      if (!known || codeOf(error) !== unknownStatement) throw error;
      await this.tx.query("ROLLBACK"); // the pooler has given us another session
      await this.#prepare();
      results = await this.tx.query(message);
    }
    return results[1].rowCount === 1;
  }

  async #prepare(): Promise<void> {
    try {
      // Not in the same message as BEGIN: the isolation level cannot be set after another
      // statement.
      await this.tx.query(prepare);
    } catch (error) {
      if (codeOf(error) !== duplicateStatement) throw error; // by another client of a pooler
    }
    prepared.add(this.tx);
  }

  async commit(step: Step, name?: string): Promise<void> {
    const named = name ? `INSERT INTO skald_calls (id, state, changed_at)
      VALUES (${literal(name)}, ${literal(this.id)}, ${seconds(Date.now())})
      ON CONFLICT (id) DO UPDATE SET changed_at = excluded.changed_at;` : "";
    // RELEASE fails if the function has ended the transaction.
    await this.#query(`RELEASE SAVEPOINT skald; ${named} ${this.#saved(step)}; COMMIT`);
    this.#release();
  }

  async rollback(step?: Step): Promise<void> {
    await this.#query(step ? `ROLLBACK TO SAVEPOINT skald; ${this.#saved(step)}; COMMIT` : "ROLLBACK");
    this.#release();
  }

  #saved(step: Step): string {
    const values = `${literal(JSON.stringify(step))}, ${seconds(Date.now())}, ${literal(this.id)}`;
    return `EXECUTE skald_save_1(${values})`;
  }

  /**
   * Sends statements. After an error the connection is closed, which rolls back the open
   * transaction.
   */
  async #query(text: string): Promise<any> {
    try {
      return await this.tx.query(text);
    } catch (error) {
      this.#release(true);
      throw error;
    }
  }

  #release(broken = false): void {
    this.tx.removeListener("error", this.#broken);
    this.tx.release(broken);
  }
}

function codeOf(error: unknown): string | undefined {
  return (error as { code?: string }).code;
}

function seconds(ms: number): number {
  return Math.floor(ms / 1000);
}

/**
 * Quotes text for SQL, independently of the setting standard_conforming_strings. Characters outside
 * ASCII are escaped, because they would depend on the client's encoding.
 */
function literal(text: string): string {
  const escaped = text.replace(/[\\']/g, "$&$&");
  return `E'${escaped.replace(/[^\x20-\x7e]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"))}'`;
}
