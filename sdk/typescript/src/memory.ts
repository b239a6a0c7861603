import type { Step } from "./rule.js";
import type { Store } from "./store.js";

/** What a function gets from a memory store instead of a database transaction. */
export interface MemoryTx {
  /** Calls effect when the call is done, but not if the function throws. */
  onCommit(effect: () => void): void;
}

/**
 * Keeps everything in memory, for tests: nothing survives the process. Calls of one step take
 * turns, so one store belongs to one participant.
 */
export function memoryStore(): Store<MemoryTx> {
  const steps = new Map<string, { step: Step; at: number }>();
  const names = new Map<string, string>();
  const read = (id: string): Step => steps.get(id)?.step ?? { fence: 0 };
  return {
    withoutLocks: true,
    find: async (name) => names.get(name),
    look: async (id) => read(id),
    join: async (_tx, id) => ({
      step: read(id),
      save: async (step) => void steps.set(id, { step, at: Date.now() }),
    }),
    async begin(id) {
      const effects: (() => void)[] = [];
      const save = (step: Step) => void steps.set(id, { step, at: Date.now() });
      return {
        tx: { onCommit: (effect) => void effects.push(effect) },
        step: read(id),
        async commit(step, name) {
          if (name) names.set(name, id);
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
      for (const [name, id] of names) if (!steps.has(id)) names.delete(name);
      return purged;
    },
  };
}
