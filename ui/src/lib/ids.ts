/** Ids of records: 26 digits of Crockford's base 32, whose order is that of the records. */
const DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** The id directly before or after another; the same id at the end of the range. */
export function neighbour(id: string, step: 1 | -1): string {
  const digits = [...id.toUpperCase()];
  const [last, first] = step === 1 ? ["Z", "0"] : ["0", "Z"];
  for (let at = digits.length - 1; at >= 0; at -= 1) {
    const digit = digits[at] ?? "";
    if (digit !== last) {
      digits[at] = DIGITS.charAt(DIGITS.indexOf(digit) + step);
      return digits.join("");
    }
    digits[at] = first;
  }
  return id;
}

/** Unix milliseconds of an id. */
export function idMs(id: string): number {
  let ms = 0;
  for (const digit of id.slice(0, 10).toUpperCase()) ms = ms * 32 + DIGITS.indexOf(digit);
  return ms;
}
