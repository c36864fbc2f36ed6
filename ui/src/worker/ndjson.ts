/** Splits a stream of bytes into lines. A line longer than `lineMax` is an error, so memory is bounded. */
export class LineCutter {
  #decoder = new TextDecoder();
  #parts: string[] = [];
  #length = 0;

  constructor(readonly lineMax: number) {}

  /** Returns the lines that these bytes complete. */
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

  /** Whether the last line is unfinished. */
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
