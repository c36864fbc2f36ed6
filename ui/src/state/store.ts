import { useSyncExternalStore } from "react";

/** A value that notifies its subscribers of changes, at most once per frame. */
export class Store<T> {
  #value: T;
  #notified: T;
  #listeners = new Set<() => void>();
  #waiting = false;

  constructor(value: T) {
    this.#value = value;
    this.#notified = value;
  }

  /** The current value. */
  get value(): T {
    return this.#value;
  }

  /** Changes some properties. With `now`, subscribers are notified at once, for reactions to keys and clicks. */
  change(change: Partial<T>, when: "now" | "frame" = "now") {
    this.#value = { ...this.#value, ...change };
    if (when === "now") this.#tell();
    else if (!this.#waiting) {
      this.#waiting = true;
      // A page in the background has no frames, and must not accumulate notifications.
      if (document.hidden) setTimeout(this.#tell, 250);
      else requestAnimationFrame(this.#tell);
    }
  }

  #tell = () => {
    this.#waiting = false;
    this.#notified = this.#value;
    for (const listener of this.#listeners) listener();
  };

  readonly subscribe = (listener: () => void) => {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  };

  readonly snapshot = (): T => this.#notified;
}

/** Calls a function after the next paint. The returned function cancels it. */
export function afterPaint(work: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  // A page in the background is not painted.
  if (document.hidden) timer = setTimeout(work);
  const frame = document.hidden
    ? 0
    : requestAnimationFrame(() => {
        timer = setTimeout(work);
      });
  return () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
  };
}

export function useStore<T>(store: Store<T>): T {
  return useSyncExternalStore(store.subscribe, store.snapshot);
}
