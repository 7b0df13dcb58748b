import { defineConfig } from "vite";

// The page is served under a strict content security policy: nothing may be inlined, neither as data: addresses nor
// as script or style in the document.
export default defineConfig({
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
