/** The fields of an answer for the panel: by the dots of their names, and without names that are none. */
import type { FieldFacts } from "./complete.ts";

/** A field, or the fields whose names begin alike. */
export interface FieldGroup {
  /** The part of the name after that of the group above. */
  label: string;
  /** The part of the name that all have in common. */
  prefix: string;
  field: FieldFacts | undefined;
  members: readonly FieldGroup[];
}

/** Characters of a longer name, which is rather a piece of text with `=` in it. */
const NAME_MAX = 60;

/** From this number of records on, a name in fewer than one of two hundred is rare. */
const RECORDS_MIN = 500;
const RARE = 1 / 200;

/** Whether a name is probably a piece of a URL or of other text, or so rare that it is offered last. */
export function isOdd({ name, kind, records }: FieldFacts, all: number): boolean {
  if (kind !== "field") return false;
  if (name.length > NAME_MAX || !/^[\p{L}_@$][\p{L}\p{N}_.@$:/ -]*$/u.test(name)) return true;
  return all >= RECORDS_MIN && records < all * RARE;
}

/** Groups fields by the parts of their names between dots; a name that no other begins like stays whole. */
export function groupFields(fields: readonly FieldFacts[], prefix = ""): FieldGroup[] {
  const byHead = new Map<string, FieldFacts[]>();
  for (const field of fields) {
    const rest = field.name.slice(prefix.length);
    const dot = rest.indexOf(".");
    const head = dot < 0 ? rest : rest.slice(0, dot);
    byHead.set(head, [...(byHead.get(head) ?? []), field]);
  }
  return [...byHead].flatMap(([head, some]): FieldGroup[] => {
    const whole = some.find(({ name }) => name === `${prefix}${head}`);
    const nested = some.filter((field) => field !== whole);
    const alone = (field: FieldFacts): FieldGroup => ({
      label: field.name.slice(prefix.length),
      prefix: field.name,
      field,
      members: [],
    });
    if (nested.length < 2) return some.map(alone);
    const members = groupFields(nested, `${prefix}${head}.`);
    return [{ label: head, prefix: `${prefix}${head}`, field: whole, members }];
  });
}
