// Files with secrets and certificates.

import { closeSync, openSync, readSync, statSync } from "node:fs";

/** Longest file of certificates in bytes. All public CAs have a quarter of it. */
export const CERTIFICATES_BYTES_MAX = 1 << 20;

/**
 * The content of a regular file; another kind could block for ever. Throws an error that names the file.
 *
 * It does not use promises, because it takes some 30 µs, and that once per request.
 */
export function readRegularFile(name: string, bytesMax: number): Buffer {
  if (!statSync(name).isFile()) throw new Error(`${name} is not a regular file`);
  const content = Buffer.alloc(Math.min(bytesMax, statSync(name).size) + 1);
  const file = openSync(name, "r");
  let length = 0;
  try {
    for (let read = -1; read !== 0 && length < content.length; length += read) {
      read = readSync(file, content, length, content.length - length, null);
    }
  } finally {
    closeSync(file);
  }
  if (length > bytesMax) throw new Error(`${name} is longer than ${bytesMax} bytes`);
  return content.subarray(0, length);
}

/** What differs after a change of the file. Throws if there is none. */
export function fileState(name: string): string {
  const { dev, ino, size, mtimeNs } = statSync(name, { bigint: true });
  return [dev, ino, size, mtimeNs].join();
}
