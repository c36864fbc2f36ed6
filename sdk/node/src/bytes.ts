// Bytes that arrive in parts of any size.

/** Memory at first; it doubles as needed. */
const BYTES_MIN = 1 << 10;

/** Collects parts in memory of at most twice their size, however small they are. */
export class ByteCollector {
  #memory = Buffer.alloc(0);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  append(part: Uint8Array): this {
    const needed = this.#length + part.length;
    if (needed > this.#memory.length) {
      const grown = Buffer.allocUnsafe(Math.max(needed, 2 * this.#memory.length, BYTES_MIN));
      this.#memory.copy(grown, 0, 0, this.#length);
      this.#memory = grown;
    }
    this.#memory.set(part, this.#length);
    this.#length = needed;
    return this;
  }

  /** The collected bytes as UTF-8, with U+FFFD for those that are not. Then it is empty. */
  takeText(): string {
    const text = this.#memory.toString("utf8", 0, this.#length);
    this.#memory = Buffer.alloc(0);
    this.#length = 0;
    return text;
  }
}
