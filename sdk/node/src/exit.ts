// The end of the process: records that are not yet acknowledged keep it alive for at most the close time.

/** Something with records that are not yet acknowledged. */
export interface Unsent {
  /** Sends them, and returns whether the close time sufficed. Called when the program has nothing else to do. */
  drain(): Promise<boolean>;
  /** Counts and reports them as dropped, at once. Called when the process ends for another reason. */
  abandon(): void;
}

const all = new Set<Unsent>();
/** Those whose close time did not suffice. It is not given twice: a program that logs this would never end. */
const spent = new WeakSet<Unsent>();
let listening = false;
let exiting = false;

/** Sends the records of `unsent` before the process ends, until `release`. */
export function hold(unsent: Unsent): void {
  all.add(unsent);
  if (exiting) {
    unsent.abandon();
    return;
  }
  if (listening) return;
  listening = true;
  process.on("beforeExit", () => {
    for (const held of all) if (!spent.has(held)) void drain(held);
  });
  process.on("exit", () => {
    exiting = true;
    for (const held of all) held.abandon();
  });
}

async function drain(unsent: Unsent): Promise<void> {
  if (!(await unsent.drain())) spent.add(unsent);
}

/** Forgets `unsent`, so that an idle client can be collected. */
export function release(unsent: Unsent): void {
  all.delete(unsent);
}
