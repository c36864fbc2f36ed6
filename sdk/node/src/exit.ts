// The end of the process: records that are not yet acknowledged keep it alive for at most the close time.

/** Something with records that are not yet acknowledged. */
export interface Unsent {
  /** Sends them, within the close time. Called when the program has nothing else to do. */
  drain(): Promise<void>;
  /** Counts and reports them as dropped, at once. Called when the process ends for another reason. */
  abandon(): void;
}

const all = new Set<Unsent>();
let listening = false;

/** Sends the records of `unsent` before the process ends, until `release`. */
export function hold(unsent: Unsent): void {
  all.add(unsent);
  if (listening) return;
  listening = true;
  process.on("beforeExit", () => {
    for (const held of all) void held.drain();
  });
  process.on("exit", () => {
    for (const held of all) held.abandon();
  });
}

/** Forgets `unsent`, so that an idle client can be collected. */
export function release(unsent: Unsent): void {
  all.delete(unsent);
}
