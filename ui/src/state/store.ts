import { useSyncExternalStore } from "react";

/** Something that changes, and tells those who show it at most once a frame. */
export class Store<T> {
  #value: T;
  #told: T;
  #listeners = new Set<() => void>();
  #waiting = false;

  constructor(value: T) {
    this.#value = value;
    this.#told = value;
  }

  /** The newest. */
  get value(): T {
    return this.#value;
  }

  /** Changes some of it. With `now`, who shows it is told at once: for what follows a key or a click. */
  change(change: Partial<T>, when: "now" | "frame" = "now") {
    this.#value = { ...this.#value, ...change };
    if (when === "now") this.#tell();
    else if (!this.#waiting) {
      this.#waiting = true;
      // Pages in the background have no frames, and must not pile up what they were told.
      if (document.hidden) setTimeout(this.#tell, 250);
      else requestAnimationFrame(this.#tell);
    }
  }

  #tell = () => {
    this.#waiting = false;
    this.#told = this.#value;
    for (const listener of this.#listeners) listener();
  };

  readonly subscribe = (listener: () => void) => {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  };

  readonly snapshot = (): T => this.#told;
}

/** Does something when what was changed can be seen. The function that comes back lets go of it. */
export function afterPaint(work: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  // Pages in the background are not painted.
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
