/** The last `capacity` pushed items in order; older ones are dropped and counted. */
export class Ring<T> {
  #items: (T | undefined)[];
  #first = 0;
  #length = 0;
  #dropped = 0;

  constructor(readonly capacity: number) {
    this.#items = new Array<T | undefined>(capacity);
  }

  get length(): number {
    return this.#length;
  }

  /** The number of dropped items. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Returns the item that was dropped for it. */
  push(item: T): T | undefined {
    let old: T | undefined;
    if (this.#length === this.capacity) {
      old = this.#items[this.#first];
      this.#items[this.#first] = item;
      this.#first = (this.#first + 1) % this.capacity;
      this.#dropped += 1;
    } else {
      this.#items[(this.#first + this.#length) % this.capacity] = item;
      this.#length += 1;
    }
    return old;
  }

  /** Index 0 is the oldest item. */
  at(index: number): T | undefined {
    if (index < 0 || index >= this.#length) return undefined;
    return this.#items[(this.#first + index) % this.capacity];
  }

  clear() {
    this.#items = new Array<T | undefined>(this.capacity);
    this.#first = 0;
    this.#length = 0;
    this.#dropped = 0;
  }
}
