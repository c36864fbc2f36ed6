/** The rows of the list: the records of an answer in order, sorted by a field, or with the context of one between them. */
import type { Row } from "../worker/messages.ts";
import { valueOfField } from "./fields.ts";
import { LEVELS } from "./level.ts";
import { LEVEL_FIELD, type Sort } from "./url.ts";

/** The value of a field of a record; `undefined` if it has none. */
export function fieldValue(row: Row, name: string): string | undefined {
  if (name === LEVEL_FIELD) return row.level;
  return valueOfField(row, name);
}

/** The rows sorted by a field: numbers by value before texts; rows without the field are last in either direction. */
export function sortedRows(rows: readonly Row[], { name, descending }: Sort): Row[] {
  const keyed = rows.map((row) => {
    const value = fieldValue(row, name);
    const number =
      name === LEVEL_FIELD ? rankOf(value) : value === undefined || value.trim() === "" ? NaN : Number(value);
    return { row, value, number };
  });
  const sign = descending ? -1 : 1;
  keyed.sort((one, other) => {
    if (one.value === undefined || other.value === undefined) {
      return Number(one.value === undefined) - Number(other.value === undefined);
    }
    const [first, second] = [Number.isNaN(one.number), Number.isNaN(other.number)];
    if (first !== second) return sign * (Number(first) - Number(second));
    if (!first) return sign * (one.number - other.number);
    return sign * (one.value < other.value ? -1 : one.value > other.value ? 1 : 0);
  });
  return keyed.map(({ row }) => row);
}

function rankOf(level: string | undefined): number {
  return level === undefined ? NaN : -LEVELS.indexOf(level as (typeof LEVELS)[number]);
}

/**
 * The rows with the context of one of them in its place. The context is a block of rows that are neighbours, in the order of
 * the list; a match that is part of it is not shown twice.
 */
export function withContext(rows: readonly Row[], block: readonly Row[], id: string, newestFirst: boolean): Row[] {
  const within = new Set(block.map((row) => row.id));
  const outside = (row: Row) => !within.has(row.id);
  const found = rows.findIndex((row) => row.id === id);
  // A record that does not match has the place where it would be.
  const follows = rows.findIndex((row) => (newestFirst ? row.id < id : row.id > id));
  const [end, start] = found >= 0 ? [found, found + 1] : follows >= 0 ? [follows, follows] : [rows.length, rows.length];
  return [
    ...rows.slice(0, end).filter(outside),
    ...block.map((row) => (row.id === id ? (rows[found] ?? row) : row)),
    ...rows.slice(start).filter(outside),
  ];
}
