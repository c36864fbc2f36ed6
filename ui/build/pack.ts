import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { Plugin } from "vite";

/**
 * Writes `x.br` and `x.gz` beside each file `x` of the page if they are smaller, and fails if scripts and styles exceed their
 * budget, compressed with gzip.
 */
export function pack({ budgetBytes }: { budgetBytes: number }): Plugin {
  let dir = "";
  return {
    name: "pack",
    apply: "build",
    configResolved(config) {
      dir = config.build.outDir;
    },
    closeBundle() {
      let total = 0;
      for (const path of filesIn(dir)) {
        const plain = readFileSync(path);
        const gzip = gzipSync(plain, { level: 9 });
        const brotli = brotliCompressSync(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } });
        if (gzip.length < plain.length) writeFileSync(`${path}.gz`, gzip);
        if (brotli.length < plain.length) writeFileSync(`${path}.br`, brotli);
        if (/\.(js|css)$/.test(path)) total += gzip.length;
      }
      this.info(`scripts and styles, packed: ${total} of at most ${budgetBytes} bytes`);
      if (total > budgetBytes) throw new Error(`the page has ${total} bytes, packed: more than ${budgetBytes}`);
    },
  };
}

function filesIn(dir: string): string[] {
  return readdirSync(dir).flatMap((name) => {
    const path = join(dir, name);
    if (statSync(path).isDirectory()) return filesIn(path);
    return /\.(gz|br)$/.test(name) ? [] : [path];
  });
}
