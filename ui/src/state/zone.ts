import { localZone } from "../lib/zones.ts";

/** The zone of shown times, which the preferences set. */
export const shown = { zone: localZone() };

/** The zone of shown times, outside of components. */
export function shownZone(): string {
  return shown.zone;
}
