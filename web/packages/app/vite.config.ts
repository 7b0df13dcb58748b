import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

/** Puts a compressed form beside each file that compresses, as small as it gets: built once, sent many times. */
function precompress(): Plugin {
  return {
    name: "precompress",
    apply: "build",
    writeBundle(options) {
      const root = options.dir ?? "dist";
      for (const entry of readdirSync(root, { recursive: true, withFileTypes: true })) {
        if (!entry.isFile() || !/\.(html|js|css|svg|json|webmanifest|txt)$/.test(entry.name)) continue;
        const file = join(entry.parentPath, entry.name);
        const plain = readFileSync(file);
        const forms = { br: brotliCompressSync(plain, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: plain.length } }), gz: gzipSync(plain, { level: 9 }) };
        for (const [ending, form] of Object.entries(forms)) if (form.length < plain.length) writeFileSync(`${file}.${ending}`, form);
      }
    },
  };
}

// The page is served under a strict content security policy: nothing may be inlined, neither as data: addresses nor
// as script or style in the document.
export default defineConfig({
  plugins: [precompress()],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: false,
  },
  server: {
    port: 5173,
    proxy: {
      // `npm run fake` answers here; SKALD_API points the page at a real host instead.
      "/api": { target: process.env["SKALD_API"] ?? "http://127.0.0.1:5199", changeOrigin: true },
    },
  },
});
