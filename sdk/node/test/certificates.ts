// Certificates for tests, made by the command openssl. Keys exist only in temporary directories.

import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryDirectory } from "./support.js";

const CONFIGURATION = `
[ca]
default_ca = own
[own]
database = index.txt
new_certs_dir = .
certificate = ca.pem
private_key = ca.key
serial = serial
default_md = sha256
policy = any
copy_extensions = copy
unique_subject = no
[any]
commonName = supplied
[req]
distinguished_name = names
[names]
[authority]
basicConstraints = critical,CA:true
`;

/** The files of a certificate. */
export interface CertificateFiles {
  certificate: string;
  key: string;
}

/** A CA in a directory of its own. The caller removes it. */
export class Authority {
  readonly directory = temporaryDirectory();
  readonly file = join(this.directory, "ca.pem");
  #issued = 0;

  constructor() {
    writeFileSync(join(this.directory, "openssl.cnf"), CONFIGURATION);
    writeFileSync(join(this.directory, "index.txt"), "");
    writeFileSync(join(this.directory, "serial"), "01");
    const own = ["-keyout", "ca.key", "-out", "ca.pem", "-extensions", "authority", "-days", "2"];
    this.#openssl("req", "-x509", ...Authority.#newKey("test CA"), ...own);
  }

  /** Makes a certificate for a host or client, valid from and to these hours from now. */
  issue(name: string, hours: readonly [number, number] = [-1, 24]): CertificateFiles {
    this.#issued += 1;
    const directory = String(this.#issued);
    mkdirSync(join(this.directory, directory));
    const [key, request, certificate] = ["key.pem", "request.pem", "cert.pem"].map((file) => join(directory, file)) as [
      string,
      string,
      string,
    ];
    const kind = /^[\d.]+$/.test(name) ? "IP" : "DNS";
    const alternative = ["-addext", `subjectAltName=${kind}:${name}`];
    this.#openssl("req", ...Authority.#newKey(name), ...alternative, "-keyout", key, "-out", request);
    const [start, end] = hours.map((hour) => timestamp(Date.now() + hour * 3_600_000)) as [string, string];
    const dates = ["-startdate", start, "-enddate", end];
    this.#openssl("ca", "-batch", "-notext", "-config", "openssl.cnf", ...dates, "-in", request, "-out", certificate);
    return { certificate: join(this.directory, certificate), key: join(this.directory, key) };
  }

  static #newKey(name: string): string[] {
    const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    return ["-config", "openssl.cnf", "-subj", `/CN=${name}`, ...key];
  }

  #openssl(...parameters: string[]): void {
    execFileSync("openssl", parameters, { cwd: this.directory, stdio: ["ignore", "ignore", "pipe"] });
  }
}

/** `YYMMDDHHMMSSZ`. */
function timestamp(ms: number): string {
  return `${new Date(ms)
    .toISOString()
    .replace(/[-:T]|\..*/g, "")
    .slice(2)}Z`;
}
