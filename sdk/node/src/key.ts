// Keys of batches: UUIDs of version 7, whose time lets nodes recognise a batch for a week.

import { randomBytes } from "node:crypto";

/** Makes the key of a time in milliseconds since 1970 and ten random bytes. */
export function makeKey(unixMs: number, random: Uint8Array = randomBytes(10)): string {
  const bytes = Buffer.alloc(16);
  bytes.writeUIntBE(unixMs, 0, 6);
  bytes.set(random.subarray(0, 10), 6);
  bytes[6] = 0x70 | (bytes.readUInt8(6) & 0x0f);
  bytes[8] = 0x80 | (bytes.readUInt8(8) & 0x3f);
  const hex = bytes.toString("hex");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
