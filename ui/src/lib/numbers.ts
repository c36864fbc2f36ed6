const grouped = new Intl.NumberFormat("en-GB");

/** `1,234,567`: exact. */
export function count(number: number): string {
  return grouped.format(number);
}

/** `1 record`, `2 records`. */
export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** `12.3 MB`, in powers of a thousand. */
export function bytes(number: number): string {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let [size, unit] = [number, 0];
  while (Math.abs(size) >= 1_000 && unit < units.length - 1) {
    size /= 1_000;
    unit += 1;
  }
  const digits = unit === 0 || Math.abs(size) >= 100 ? 0 : 1;
  return `${size.toFixed(digits)} ${units[unit]}`;
}

/** `12.3k`, where an exact number does not fit. */
export function compact(number: number): string {
  if (Math.abs(number) < 1_000) return String(Math.round(number * 10) / 10);
  return bytes(number)
    .replace(" kB", "k")
    .replace(" MB", "M")
    .replace(" GB", "G")
    .replace(" TB", "T")
    .replace(" B", "");
}

/** `12.5%`; `0%` and `100%` only if exact. A part is at most the whole. */
export function share(part: number, whole: number): string {
  if (whole === 0 || part === 0) return "0%";
  const percent = Math.min(100, (100 * part) / whole);
  if (percent < 0.1) return "<0.1%";
  if (part < whole && percent > 99.9) return ">99.9%";
  return percent < 10 ? `${percent.toFixed(1).replace(/\.0$/, "")}%` : `${Math.round(percent)}%`;
}

/** A measured number with at most four digits that tell: `0.001234`, `12.3`, `1,234,567`. */
export function short(number: number): string {
  if (!Number.isFinite(number)) return "–";
  const size = Math.abs(number);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return number.toExponential(2);
  if (size >= 1_000) return grouped.format(Math.round(number));
  return String(Number(number.toPrecision(4)));
}
