// TLS of the connections of a client.

import { X509Certificate } from "node:crypto";
import { createSecureContext, type SecureContext } from "node:tls";
import { CERTIFICATES_BYTES_MAX, fileState, readRegularFile } from "./files.js";
import type { ClientSettings } from "./settings.js";

/** The files of a client. */
export type TlsSettings = Pick<ClientSettings, "caFile" | "certificateFile" | "keyFile">;

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

/** The certificates of a client, read again when their files change. */
export class Certificates {
  readonly #settings: TlsSettings;
  readonly #names: readonly string[];
  #context: SecureContext | undefined;
  /** State of the files before they were read. */
  #loaded = "";
  /** Why the changed files cannot be used. */
  problem: string | undefined;

  /** Throws a TypeError if the settings contradict each other, or the files cannot be used. */
  constructor(settings: TlsSettings) {
    if ((settings.certificateFile === undefined) !== (settings.keyFile === undefined)) {
      throw new TypeError("certificateFile, keyFile: each needs the other");
    }
    this.#settings = settings;
    this.#names = [settings.caFile, settings.certificateFile, settings.keyFile].filter((name) => name !== undefined);
    if (this.#names.length === 0) return;
    this.context();
    if (this.problem !== undefined) throw new TypeError(`caFile, certificateFile, keyFile: ${this.problem}`);
  }

  /** What new connections use: another object after a change of the files. */
  context(): SecureContext {
    try {
      const state = this.#names.map(fileState).join();
      if (this.#context === undefined || state !== this.#loaded) {
        this.#context = makeContext(this.#settings);
        this.#loaded = state;
      }
      this.problem = undefined;
    } catch (thrown) {
      this.problem = thrown instanceof Error ? thrown.message : String(thrown);
    }
    // The first time is in the constructor, which throws.
    return this.#context ?? makeContext({});
  }
}

function makeContext({ caFile, certificateFile, keyFile }: TlsSettings): SecureContext {
  const read = (name: string | undefined) =>
    name === undefined ? undefined : readRegularFile(name, CERTIFICATES_BYTES_MAX);
  const ca = read(caFile)?.toString("latin1").match(CERTIFICATE);
  if (ca === null) throw new Error(`${caFile} has no certificate in PEM format`);
  try {
    // A context takes no notice of certificates that cannot be read.
    for (const certificate of ca ?? []) new X509Certificate(certificate);
  } catch (thrown) {
    throw new Error(`${caFile}: ${String(thrown)}`);
  }
  const cert = read(certificateFile);
  const key = read(keyFile);
  try {
    return createSecureContext({
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined ? {} : { cert }),
      ...(key === undefined ? {} : { key }),
      minVersion: "TLSv1.2",
    });
  } catch (thrown) {
    throw new Error(`${certificateFile} and ${keyFile}: ${String(thrown)}`);
  }
}

const UNKNOWN_ISSUER: ReadonlySet<unknown> = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
]);
const REFUSED_CERTIFICATE =
  /_ALERT_(?:BAD_CERTIFICATE|UNSUPPORTED_CERTIFICATE|CERTIFICATE_(?:REVOKED|EXPIRED|UNKNOWN)|UNKNOWN_CA|DECRYPT_ERROR)$/;

/** A sentence of all SDKs for a failure of TLS. */
export function tlsSentence(code: unknown): string | undefined {
  if (code === "CERT_HAS_EXPIRED") return "the certificate of the node has expired";
  if (code === "CERT_NOT_YET_VALID") return "the certificate of the node is not valid yet";
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") return "the certificate of the node is not for this name";
  if (UNKNOWN_ISSUER.has(code)) return "the certificate of the node is not signed by a trusted CA";
  if (typeof code !== "string") return undefined;
  if (code.endsWith("_ALERT_CERTIFICATE_REQUIRED")) return "the node requires a client certificate";
  return REFUSED_CERTIFICATE.test(code) ? "the node refuses the client certificate" : undefined;
}
