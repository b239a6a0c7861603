import type { Step } from "./rule.js";
import type { Store } from "./store.js";

/** What a function gets from a memory store in place of a database transaction. */
export interface MemoryTx {
  /** Calls effect when the call is done; not if the function throws. */
  onCommit(effect: () => void): void;
}

/**
 * Keeps everything in memory, for tests: it forgets everything with the process. Calls of one step take turns in
 * front of it, so one store belongs to one participant.
 */
export function memoryStore(): Store<MemoryTx> {
  const steps = new Map<string, { step: Step; at: number }>();
  return {
    async begin(id) {
      const effects: (() => void)[] = [];
      const save = (step: Step) => void steps.set(id, { step, at: Date.now() });
      return {
        tx: { onCommit: (effect) => void effects.push(effect) },
        step: steps.get(id)?.step ?? { fence: 0 },
        async commit(step) {
          for (const effect of effects) effect();
          save(step);
        },
        rollback: async (step) => step && save(step),
      };
    },
    async purge(before) {
      let purged = 0;
      for (const [id, { at }] of steps) {
        if (at < before.getTime() && steps.delete(id)) purged++;
      }
      return purged;
    },
  };
}
