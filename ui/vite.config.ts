import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";
import { pack } from "./build/pack.ts";

export default defineConfig({
  plugins: [react(), pack({ budgetBytes: 350_000 })],
  // No markup with styles or code in it, and nothing as data: the page's policy allows neither.
  build: { target: "es2022", assetsInlineLimit: 0, modulePreload: { polyfill: false }, reportCompressedSize: false },
  worker: { format: "es" },
  // `npm run dev` beside a node on its default port.
  // `changeOrigin: false` keeps the browser's Host, which the node compares with Origin.
  server: { proxy: { "/api": { target: "http://127.0.0.1:7650", changeOrigin: false } } },
  test: { include: ["test/**/*.test.ts"], environment: "node" },
});
