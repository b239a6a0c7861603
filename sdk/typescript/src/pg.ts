import type { Step } from "./rule.js";
import type { Joined, Session, Store } from "./store.js";

/** What is used of a client of the package pg. */
export interface PgClient {
  query(text: string): Promise<any>;
  release(error?: Error | boolean): void;
  on(event: "error", listener: (error: Error) => void): unknown;
  removeListener(event: "error", listener: (error: Error) => void): unknown;
}

/** What is used of a Pool of the package pg. */
export interface PgPool<Client extends PgClient> {
  connect(): Promise<Client>;
  // It is not called. With both signatures of pg.Pool, TypeScript can infer Client.
  connect(callback: (...args: any[]) => void): void;
}

/** The statements that create the table: put them among the migrations of the participant. */
export const migration = `CREATE TABLE skald_calls (
    id         varchar(600) COLLATE "C" PRIMARY KEY,
    state      text         NOT NULL,
    changed_at bigint       NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX skald_calls_changed_at ON skald_calls (changed_at);
`;

const purgeBatch = 1000;

/**
 * Keeps what is known of calls in the table skald_calls. The functions get a client of the pool, in the
 * transaction; they must not end it.
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

/** The step is locked until the caller ends the transaction; a concurrent call of another process waits for that. */
async function joined(tx: PgClient, id: string): Promise<Joined> {
  const { rows } = await tx.query(claimed(id));
  return {
    step: parsed(rows[0].state),
    save: async (step) => void await tx.query(saved(id, step)),
  };
}

/** Creates the row of a step, or locks it and reads it as it is then. */
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

/**
 * A transaction takes two round trips besides those of the function, as many as BEGIN and COMMIT alone:
 * several statements are sent at once. PostgreSQL takes no parameters with these, so values are literals.
 */
class PgSession<Client extends PgClient> implements Session<Client> {
  step: Step = { fence: 0 };
  // A connection that breaks between two queries emits an event, which ends the process if it has no listener.
  readonly #broken = () => {};

  constructor(readonly tx: Client, private readonly id: string) {
    tx.on("error", this.#broken);
  }

  /**
   * Creates the row of the step, or locks it and reads it as it is then: a concurrent call of another process
   * waits here. A function that refuses or throws is rolled back to the savepoint, which keeps the lock.
   */
  async open(): Promise<void> {
    const results = await this.#query(`BEGIN ISOLATION LEVEL READ COMMITTED;
      ${claimed(this.id)}; SAVEPOINT skald`);
    this.step = parsed(results[1].rows[0].state);
  }

  async commit(step: Step, name?: string): Promise<void> {
    const named = name ? `INSERT INTO skald_calls (id, state, changed_at)
      VALUES (${literal(name)}, ${literal(this.id)}, ${seconds(Date.now())})
      ON CONFLICT (id) DO UPDATE SET changed_at = excluded.changed_at;` : "";
    // RELEASE fails if the function has ended the transaction.
    await this.#query(`RELEASE SAVEPOINT skald; ${named} ${saved(this.id, step)}; COMMIT`);
    this.#release();
  }

  async rollback(step?: Step): Promise<void> {
    await this.#query(step ? `ROLLBACK TO SAVEPOINT skald; ${saved(this.id, step)}; COMMIT` : "ROLLBACK");
    this.#release();
  }

  /** Sends statements. After an error the connection is closed, which rolls back what is open. */
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

function seconds(ms: number): number {
  return Math.floor(ms / 1000);
}

/** Text as SQL. It is in hexadecimal, so that no setting and no character of it matters. */
function literal(text: string): string {
  let hex = "";
  for (const byte of new TextEncoder().encode(text)) hex += byte.toString(16).padStart(2, "0");
  return `convert_from(decode('${hex}', 'hex'), 'UTF8')`;
}
