/**
 * Serializes the calls of one step within this process, so that waiting calls hold no connection to
 * the database.
 */
export class Turns {
  readonly #waiting = new Map<string, (() => void)[]>();

  /** Waits for a turn and returns the function that ends it; undefined if that takes too long. */
  async take(name: string, waitMs: number): Promise<(() => void) | undefined> {
    const line = this.#waiting.get(name);
    if (!line) {
      this.#waiting.set(name, []);
      return () => this.#next(name);
    }
    const called = await new Promise<boolean>((resolve) => {
      const turn = () => {
        clearTimeout(timer);
        resolve(true);
      };
      const timer = setTimeout(() => {
        line.splice(line.indexOf(turn), 1);
        resolve(false);
      }, waitMs);
      line.push(turn);
    });
    return called ? () => this.#next(name) : undefined;
  }

  #next(name: string): void {
    const next = this.#waiting.get(name)?.shift();
    if (next) next();
    else this.#waiting.delete(name);
  }
}
