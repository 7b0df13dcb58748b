// A stand-in for the host, for working on the page and for its tests: Node's http and nothing else. It keeps everything
// in memory, speaks the API as the host does, and lets a test act as "someone elsewhere".
//
//   node dev/fake-server.mjs [port]      then open the address it prints
import { randomBytes, randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { fakeQr } from "./png.mjs";
import { bypassesSample, devicesSample, historySample, inboxSample, pendingDevice, pluginsSample } from "./samples.mjs";

const DIST = fileURLToPath(new URL("../dist/", import.meta.url));
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml" };
export const CSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

class Problem extends Error {
  constructor(status, code, detail, extra = {}) {
    super(detail);
    this.status = status;
    this.body = { type: `urn:skald:problem:${code}`, title: code, status, detail, ...extra };
  }
}

export class Fake {
  constructor(over = {}) {
    const { approvals, clarifications, elicitations } = inboxSample();
    this.signinToken = "let-me-in";
    this.principal = { kind: "owner" };
    this.open = false;
    this.sessions = new Map();
    this.items = [...approvals.map((i) => ["approval", i]), ...clarifications.map((i) => ["clarification", i]), ...elicitations.map((i) => ["elicitation", i])].map(([kind, item]) => ({ kind, item }));
    this.history = historySample();
    this.devices = devicesSample();
    this.plugins = pluginsSample();
    this.bypasses = bypassesSample();
    this.tokens = [{ name: "laptop", created_at: Date.now() - 864e5, last_used: Date.now() - 36e5 }, { name: "ci", created_at: Date.now() - 1e6 }];
    this.settings = { default_timeout_secs: 86400, history_days: 90 };
    this.pairings = new Map();
    this.answers = [];
    this.revision = 1;
    this.streams = new Set();
    this.down = false;
    /** How far this host's clock is ahead of the browser's. */
    this.skew = 0;
    Object.assign(this, over);
  }

  async listen(port = 0) {
    this.server = createServer((req, res) => void this.serve(req, res));
    await new Promise((resolve) => this.server.listen(port, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${this.server.address().port}`;
    return this;
  }

  async close() {
    this.dropStreams();
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  // ---- what a test, or someone elsewhere, does ----

  emit(name) {
    for (const res of this.streams) res.write(`event: ${name}\ndata: {}\n\n`);
  }

  dropStreams() {
    for (const res of this.streams) res.destroy();
    this.streams.clear();
  }

  add(kind, item) {
    this.items.push({ kind, item });
    this.changed();
    return item;
  }

  changed() {
    this.revision++;
    this.emit("inbox");
  }

  resolveElsewhere(id, outcome, by = "device:Pixel 9", state = "resolved") {
    this.finish(id, state, outcome, by);
    this.changed();
  }

  finish(id, state, outcome, by) {
    const at = this.items.findIndex((i) => i.item.request_id === id);
    if (at < 0) return undefined;
    const [{ kind, item }] = this.items.splice(at, 1);
    const entry = { request_id: id, kind, state, created_at: item.created_at, ended_at: Date.now(), resolved_by: by, outcome, item };
    this.history.unshift(entry);
    return entry;
  }

  pairNow() {
    const device = pendingDevice();
    this.devices.push(device);
    for (const p of this.pairings.values()) if (p.state === "open") Object.assign(p, { state: "paired", device });
    this.emit("devices");
    return device;
  }

  // ---- HTTP ----

  async serve(req, res) {
    const url = new URL(req.url, "http://x");
    res.setHeader("Date", new Date(Date.now() + this.skew).toUTCString());
    if (this.down && url.pathname.startsWith("/api/")) return void req.socket.destroy();
    try {
      if (!url.pathname.startsWith("/api/")) return await this.page(url.pathname, res);
      await this.api(req, res, url);
    } catch (error) {
      const problem = error instanceof Problem ? error : new Problem(500, "internal", String(error));
      this.send(res, problem.status, problem.body, { "Content-Type": "application/problem+json" });
    }
  }

  async page(path, res) {
    const file = extname(path) === "" ? "index.html" : normalize(path).replace(/^(\.\.[/\\])+/, "");
    try {
      const body = await readFile(join(DIST, file));
      res.writeHead(200, { "Content-Type": TYPES[extname(file)] ?? "application/octet-stream", "Content-Security-Policy": CSP, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer" });
      res.end(body);
    } catch {
      res.writeHead(404, { "Content-Type": "text/plain" });
      res.end("not found\n");
    }
  }

  send(res, status, body, headers = {}) {
    if (body === undefined) {
      res.writeHead(status, headers);
      return void res.end();
    }
    res.writeHead(status, { "Content-Type": "application/json", "Cache-Control": "no-store", ...headers });
    res.end(JSON.stringify(body));
  }

  async body(req) {
    let text = "";
    for await (const part of req) text += part;
    return text === "" ? {} : JSON.parse(text);
  }

  admin() {
    if (this.principal.kind === "device") throw new Problem(403, "not_from_a_device", "A device may read and answer; do this on the computer where Skald runs.");
  }

  async api(req, res, url) {
    const path = url.pathname;
    const method = req.method;
    const body = method === "POST" || method === "PUT" ? await this.body(req) : {};
    if (method === "POST" && path === "/api/v1/session") {
      if (body.token !== this.signinToken) throw new Problem(401, "bad_link", "This sign-in link has been used or has expired. Run `skald link` for a new one.");
      const id = randomBytes(8).toString("hex");
      this.sessions.set(id, { id, created_at: Date.now(), last_used: Date.now() });
      return this.send(res, 204, undefined, { "Set-Cookie": `skald_session=${id}; HttpOnly; SameSite=Strict; Path=/` });
    }
    const cookie = /skald_session=(\w+)/.exec(req.headers.cookie ?? "")?.[1];
    if (!this.open && this.principal.kind !== "device" && !this.sessions.has(cookie)) throw new Problem(401, "not_signed_in", "Sign in first.");
    const parts = path.split("/").filter(Boolean).map(decodeURIComponent);

    if (path === "/api/v1/session") {
      if (method === "DELETE") {
        this.sessions.delete(cookie);
        return this.send(res, 204);
      }
      const permissions = this.principal.kind === "device" ? ["read", "answer"] : ["read", "answer", "ask", "administer"];
      return this.send(res, 200, { principal: this.principal, permissions, version: "0.1.0-fake" });
    }
    if (path === "/api/v1/events") return this.events(res);
    if (path.startsWith("/api/v1/inbox")) return this.inboxApi(res, method, parts, url, body);
    if (path.startsWith("/api/v1/plugins")) return this.pluginsApi(res, method, parts, body);
    if (path.startsWith("/api/plugin/mobile-connector")) return this.connectorApi(res, method, parts.slice(3), url, body);
    this.admin();
    if (path.startsWith("/api/v1/tokens")) {
      if (method === "GET") return this.send(res, 200, this.tokens);
      if (method === "DELETE") {
        this.tokens = this.tokens.filter((t) => t.name !== parts[3]);
        return this.send(res, 204);
      }
      if (this.tokens.some((t) => t.name === body.name)) throw new Problem(409, "name_taken", "There is a token of that name already. Choose another name.");
      this.tokens.push({ name: body.name, created_at: Date.now() });
      return this.send(res, 201, { name: body.name, token: `skald_${randomBytes(20).toString("hex")}` });
    }
    if (path.startsWith("/api/v1/sessions")) {
      if (method === "DELETE") {
        this.sessions.delete(parts[3]);
        return this.send(res, 204);
      }
      const others = this.open ? [{ id: "here", created_at: Date.now() - 3e6, last_used: Date.now() - 1000, current: true }, { id: "s2", created_at: Date.now() - 864e5, last_used: Date.now() - 36e5 }] : [];
      return this.send(res, 200, [...others, ...[...this.sessions.values()].map((s) => ({ ...s, current: s.id === cookie }))]);
    }
    if (path.startsWith("/api/v1/rules/bypasses")) {
      if (method === "DELETE") {
        this.bypasses = this.bypasses.filter((b) => b.id !== parts[4]);
        return this.send(res, 204);
      }
      return this.send(res, 200, this.bypasses);
    }
    if (path === "/api/v1/settings") {
      if (method === "PUT") Object.assign(this.settings, body);
      return this.send(res, 200, this.settings);
    }
    throw new Problem(404, "not_found", "There is no such address.");
  }

  events(res) {
    res.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    res.write("event: hello\ndata: {}\n\n");
    this.streams.add(res);
    res.on("close", () => this.streams.delete(res));
  }

  inboxApi(res, method, parts, url, body) {
    const of = (kind) => this.items.filter((i) => i.kind === kind).map((i) => i.item);
    if (parts.length === 3) return this.send(res, 200, { badge: this.items.length, revision: this.revision, approvals: of("approval"), clarifications: of("clarification"), elicitations: of("elicitation") });
    if (parts[3] === "history") {
      const limit = Number(url.searchParams.get("limit") ?? 50);
      const before = url.searchParams.get("before");
      const from = before === null ? 0 : this.history.findIndex((h) => h.request_id === before) + 1;
      const items = this.history.slice(from, from + limit);
      return this.send(res, 200, { items, ...(from + limit < this.history.length ? { next: items.at(-1).request_id } : {}) });
    }
    if (parts[3] !== "requests") throw new Problem(404, "not_found", "There is no such address.");
    const id = parts[4];
    const ended = this.history.find((h) => h.request_id === id);
    if (method === "GET") {
      const pending = this.items.find((i) => i.item.request_id === id);
      if (pending) return this.send(res, 200, { request_id: id, kind: pending.kind, state: "pending" });
      if (!ended) throw new Problem(404, "not_found", "There is no such item.");
      const { item: _, ...rest } = ended;
      return this.send(res, 200, rest);
    }
    this.answers.push({ id, body });
    if (this.refuse) {
      const problem = this.refuse;
      this.refuse = undefined;
      throw new Problem(problem.status, problem.code ?? "invalid", problem.detail, problem.extra);
    }
    if (ended) throw new Problem(409, "already_resolved", "The item has ended already; this answer was recorded as late.", { state: ended.state, outcome: ended.outcome, resolved_by: ended.resolved_by });
    const { bypass_secs, content: _, ...outcome } = body;
    const by = this.principal.kind === "device" ? `device:${this.principal.name}` : "web";
    const entry = this.finish(id, "resolved", outcome, by);
    if (!entry) throw new Problem(404, "not_found", "There is no such item.");
    if (bypass_secs !== undefined) this.bypasses.push({ id: randomUUID(), tool_name: entry.item.tool_name, agent_label: entry.item.agent_label, session: entry.item.session, created_at: Date.now(), expires_at: bypass_secs ? Date.now() + bypass_secs * 1000 : null, created_by: by, uses: 0 });
    this.changed();
    return this.send(res, 200, { state: "resolved", outcome, resolved_by: by });
  }

  pluginsApi(res, method, parts, body) {
    if (parts.length === 3) return this.send(res, 200, this.plugins);
    const plugin = this.plugins.find((p) => p.id === parts[3]);
    if (!plugin) throw new Problem(404, "not_found", "There is no plugin of that name.");
    if (method === "PUT") {
      this.admin();
      if (body.config) {
        const relay = body.config.relay_url;
        if (relay && !/^wss:\/\/|^ws:\/\/(127\.|localhost)/.test(relay)) throw new Problem(422, "invalid_config", "Some settings are not right.", { errors: [{ field: "relay_url", message: "Begin the address with wss://, or with ws:// for a relay on this computer." }] });
        plugin.config = body.config;
      }
      if (body.enabled !== undefined) {
        plugin.enabled = body.enabled;
        plugin.status = { state: body.enabled ? "running" : "disabled", since: Date.now() };
      }
      this.emit("plugins");
    }
    return this.send(res, 200, plugin);
  }

  connectorApi(res, method, rest, url, body) {
    const plugin = this.plugins.find((p) => p.id === "mobile-connector");
    if (!plugin?.enabled) throw new Problem(404, "plugin_not_running", "The mobile connector is not enabled.");
    if (rest[0] === "status") return this.send(res, 200, { state: "connected", relay_url: plugin.config.relay_url, namespace_id: "a17e".repeat(16), since: Date.now() - 1e6 });
    if (rest[0] === "pairingqrcode") {
      res.writeHead(200, { "Content-Type": "image/png", "Cache-Control": "no-store" });
      return void res.end(fakeQr(url.searchParams.get("code") ?? ""));
    }
    if (rest[0] === "pairing" && method === "POST") {
      this.admin();
      for (const p of this.pairings.values()) if (p.state === "open") p.state = "superseded";
      const code = randomBytes(12).toString("hex");
      const ttl = body.ttl ?? this.pairingTtl ?? plugin.config.pairing_ttl ?? 300;
      const expires_at = Date.now() + this.skew + ttl * 1000;
      this.pairings.set(code, { state: "open", expires_at });
      return this.send(res, 200, { code, qr_url: `/api/plugin/mobile-connector/pairingqrcode?code=${code}`, expires_at });
    }
    if (rest[0] === "pairing") {
      const p = this.pairings.get(rest[1]);
      if (!p) throw new Problem(404, "not_found", "There is no such pairing.");
      return this.send(res, 200, { state: p.state === "open" && p.expires_at < Date.now() + this.skew ? "expired" : p.state, device: p.device });
    }
    if (rest[0] === "devices") {
      if (rest.length === 1) return this.send(res, 200, this.devices);
      this.admin();
      const device = this.devices.find((d) => d.key === rest[1]);
      if (!device) throw new Problem(404, "not_found", "There is no such device.");
      if (method === "POST") Object.assign(device, { state: "authorized", online: true, last_seen: Date.now() });
      if (method === "PUT") device.name = body.name;
      if (method === "DELETE") this.devices = this.devices.filter((d) => d !== device);
      this.emit("devices");
      return method === "DELETE" ? this.send(res, 204) : this.send(res, 200, device);
    }
    throw new Problem(404, "not_found", "There is no such address.");
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const fake = await new Fake().listen(Number(process.argv[2] ?? 5199));
  console.log(`${fake.url}/#signin=${fake.signinToken}`);
}
