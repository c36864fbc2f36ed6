/** Cuts a stream of bytes into its lines. Bounded: a line that is longer than `lineMax` is an error, not memory. */
export class LineCutter {
  #decoder = new TextDecoder();
  #parts: string[] = [];
  #length = 0;

  constructor(readonly lineMax: number) {}

  /** The lines that these bytes complete. */
  push(bytes: Uint8Array): string[] {
    const text = this.#decoder.decode(bytes, { stream: true });
    const lines: string[] = [];
    let from = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", from)) {
      this.#keep(text.slice(from, end));
      lines.push(this.#take());
      from = end + 1;
    }
    if (from < text.length) this.#keep(text.slice(from));
    return lines;
  }

  /** Whether a line was begun and not ended. */
  get isOpen(): boolean {
    return this.#length > 0;
  }

  #keep(part: string) {
    this.#length += part.length;
    if (this.#length > this.lineMax) throw new Error(`a line of the answer is longer than ${this.lineMax} characters`);
    this.#parts.push(part);
  }

  #take(): string {
    const line = this.#parts.length === 1 ? (this.#parts[0] ?? "") : this.#parts.join("");
    this.#parts = [];
    this.#length = 0;
    return line;
  }
}
