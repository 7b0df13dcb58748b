// Loads the page's TypeScript modules into Node, through the same transformer that builds them.
import { fileURLToPath } from "node:url";
import { createServer } from "vite";

export async function loader() {
  const server = await createServer({
    root: fileURLToPath(new URL("..", import.meta.url)),
    server: { middlewareMode: true, hmr: false, ws: false, watch: null },
    appType: "custom",
    logLevel: "error",
    optimizeDeps: { noDiscovery: true, include: [] },
  });
  return { load: (path) => server.ssrLoadModule(`/src/${path}`), close: () => server.close() };
}
