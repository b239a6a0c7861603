/** What a refusal may contain besides its code and message. */
export interface RefusedOptions {
  /** Any 4xx except 408, 425 and 429, which do not mean a refusal. Default: 409. */
  status?: number;
  /** Further members of the answer; operators see them as the details of the error. */
  details?: Record<string, unknown>;
}

/**
 * Thrown by execute or compensate: the call is refused permanently and must not be retried. What
 * the function has written is rolled back. Skald compensates the earlier steps.
 */
export class Refused extends Error {
  readonly code: string;
  readonly status: number;
  readonly details: Record<string, unknown>;

  constructor(code: string, message = "", options: RefusedOptions = {}) {
    super(message);
    this.name = "Refused";
    this.code = code;
    this.status = options.status ?? 409;
    this.details = options.details ?? {};
    if (this.status < 400 || this.status > 499 || [408, 425, 429].includes(this.status)) {
      throw new RangeError(`${this.status} does not mean that a call was refused`);
    }
  }
}

/**
 * Thrown by execute or compensate: nothing was applied, and the call may be retried. What the
 * function has written is rolled back, and the answer is not stored.
 */
export class NotApplied extends Error {
  readonly retryAfterMs: number | undefined;

  constructor(message = "", options: { retryAfterMs?: number } = {}) {
    super(message);
    this.name = "NotApplied";
    this.retryAfterMs = options.retryAfterMs;
  }
}

/**
 * Thrown by finish and heartbeat: the step was compensated or replaced during the work. Roll back.
 */
export class Compensated extends Error {
  constructor() {
    super("the call was compensated or replaced while the work went on");
    this.name = "Compensated";
  }
}

/**
 * Thrown by finish and heartbeat: no call with this key is waiting; it may already have its final
 * answer. Roll back.
 */
export class NotPending extends Error {
  constructor() {
    super("no call with this key is waiting for its answer");
    this.name = "NotPending";
  }
}
