// Compiles src into dist/esm and dist/cjs, so that `import` and `require` both work on every Node.js from 20 on.
import { execFileSync } from "node:child_process";
import { copyFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const manifest = createRequire(import.meta.url).resolve("typescript/package.json");
const tsc = join(dirname(manifest), "bin", "tsc");
const dist = join(here, "dist");

rmSync(dist, { recursive: true, force: true });
for (const project of ["tsconfig.esm.json", "tsconfig.cjs.json"]) {
  execFileSync(process.execPath, [tsc, "-p", project], { cwd: here, stdio: "inherit" });
}
// The package is of type "module"; this file makes the second half CommonJS.
writeFileSync(join(dist, "cjs", "package.json"), '{"type":"commonjs"}\n');
copyFileSync(join(here, "../../LICENSE"), join(dist, "LICENSE"));
