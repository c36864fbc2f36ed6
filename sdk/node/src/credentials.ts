// The token of a client.

import { isIPv4 } from "node:net";
import { readRegularFile } from "./files.js";
import type { ClientSettings, Endpoint } from "./settings.js";

/** Longest token in bytes that a node takes. */
const TOKEN_BYTES_MAX = 4096;
const TOKEN_VARIABLE = "BUCKSAW_TOKEN";
const BLANKS = /^[ \t\r\n]+|[ \t\r\n]+$/g;
const VISIBLE = /^[!-~]+$/;

/** The token that requests are sent with, if there is one. It is private, so that no text form of a client shows it. */
export class Credentials {
  readonly #file: string | undefined;
  #token: string | undefined;
  /** Why the file cannot be used at the moment. */
  problem: string | undefined;

  /** Throws a TypeError if there is no usable token where one is expected. */
  constructor(settings: Pick<ClientSettings, "token" | "tokenFile">) {
    const { token, tokenFile } = settings;
    if (token !== undefined && tokenFile !== undefined) throw new TypeError("token, tokenFile: both are set");
    this.#file = tokenFile;
    if (tokenFile !== undefined) {
      this.authorization();
      if (this.problem !== undefined) throw new TypeError(`tokenFile: ${this.problem}`);
      return;
    }
    const text = process.env[TOKEN_VARIABLE] ?? "";
    if (token === undefined && text.replace(BLANKS, "") === "") return;
    this.#token = parseToken(token ?? text);
    if (this.#token !== undefined) return;
    const name = token === undefined ? `the environment variable ${TOKEN_VARIABLE}` : "token";
    throw new TypeError(`${name}: expected 1 to ${TOKEN_BYTES_MAX} visible characters of ASCII`);
  }

  /** The header of a request. Reads the file again. */
  authorization(): string | undefined {
    if (this.#file !== undefined) {
      try {
        // Of UTF-8, because only ASCII can be a token.
        const token = parseToken(readRegularFile(this.#file, TOKEN_BYTES_MAX + 4).toString("utf8"));
        if (token === undefined) throw new Error(`${this.#file} has no token of visible characters of ASCII`);
        this.#token = token;
        this.problem = undefined;
      } catch (thrown) {
        this.problem = thrown instanceof Error ? thrown.message : String(thrown);
      }
    }
    return this.#token === undefined ? undefined : `Bearer ${this.#token}`;
  }

  /** Throws a TypeError if a token or password would be sent to another machine without encryption. */
  checkSecrecy(endpoints: readonly Endpoint[]): void {
    for (const { base, authorization } of endpoints) {
      if (this.#token === undefined && authorization === undefined) continue;
      if (base.startsWith("https:") || isLoopback(new URL(base).hostname)) continue;
      throw new TypeError(
        `endpoints: the ${authorization === undefined ? "token" : "password"} would be sent to ${base} without encryption: use https, or set insecureToken`,
      );
    }
  }
}

/** The token in a text, or undefined if it has none that can be used. */
export function parseToken(text: string): string | undefined {
  const token = String(text).replace(BLANKS, "");
  return token.length <= TOKEN_BYTES_MAX && VISIBLE.test(token) ? token : undefined;
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "[::1]" || (isIPv4(host) && host.startsWith("127."));
}
