// Things to show while working on the page and in its tests.
import { randomUUID } from "node:crypto";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

export function approval(over = {}) {
  return {
    request_id: randomUUID(),
    tool_name: "deploy",
    agent_label: "release script",
    summary: "Deploy main to production",
    created_at: Date.now() - 3 * MINUTE,
    expires_at: Date.now() + 40 * MINUTE,
    ...over,
  };
}

export const clarification = (over = {}) => ({
  request_id: randomUUID(),
  question: "Which branch shall be released?",
  agent_label: "release script",
  created_at: Date.now() - 2 * MINUTE,
  ...over,
});

export const elicitation = (over = {}) => ({
  request_id: randomUUID(),
  server_name: "mail.example",
  message: "Sign in to the mail server",
  field_name: "password",
  sensitive: true,
  is_confirmation: false,
  created_at: Date.now() - MINUTE,
  ...over,
});

const diff = `--- a/relay/src/session.rs
+++ b/relay/src/session.rs
@@ -41,7 +41,9 @@ impl Session {
     pub fn handle(&mut self, now: Instant, event: Event) -> Vec<Effect> {
         match event {
-            Event::Closed => self.forget(now),
+            // What was offered and not proved goes back to the queue.
+            Event::Closed => self.requeue(now),
+            Event::Silent => self.close(now),
             Event::Frame(frame) => self.frame(now, frame),
         }
     }
`;

export function inboxSample() {
  const now = Date.now();
  return {
    approvals: [
      approval({
        tool_name: "Bash",
        agent_label: "coding agent in ~/skald",
        summary: "Delete build folders and rebuild the release",
        session: "3f2a",
        created_at: now - 12 * MINUTE,
        expires_at: now + 95_000,
        detail: "The incremental build went wrong. Everything is built anew afterwards.",
        arguments: { command: "find . -name target -type d -prune -exec rm -rf {} + && cargo build --release", timeout: 600, description: "Clean and rebuild" },
        blocks: {
          v: 1,
          summary: "Delete build folders and rebuild the release",
          blocks: [
            { type: "block", label: "Command", value: "find . -name target -type d -prune -exec rm -rf {} + \\\n  && cargo build --release --workspace --locked \\\n  && ./target/release/skald --version", value_type: "command" },
            { type: "key_value", key: "Folder", value: "~/projects/skald", value_type: "path" },
            { type: "key_value", key: "Timeout", value: 600, value_type: "number" },
            { type: "key_value", key: "Network", value: false, value_type: "boolean" },
          ],
        },
      }),
      approval({
        tool_name: "Edit",
        agent_label: "coding agent in ~/skald",
        summary: "Change how a session ends",
        session: "3f2a",
        created_at: now - 9 * MINUTE,
        expires_at: now + 22 * HOUR,
        blocks: {
          v: 1,
          summary: "Change how a session ends",
          blocks: [
            { type: "field", label: "File", value: "relay/src/session.rs", value_type: "path" },
            { type: "block", label: "Change", value: diff, value_type: "diff" },
            { type: "key_value", key: "Ticket", value: "https://tracker.example@xn--bcher-kva.example/items/7?from=agent", value_type: "url" },
            { type: "key_value", key: "Token", value: "hunter2-hunter2", value_type: "secret" },
            { type: "key_value", key: "Due", value: "2026-12-01T09:00:00Z", value_type: "datetime" },
            { type: "key_value", key: "Mood", value: "curious", value_type: "hologram" },
          ],
        },
      }),
      approval({
        tool_name: "write_file",
        agent_label: "notes",
        summary: "Write the plan for the week",
        created_at: now - 7 * MINUTE,
        expires_at: now + 3 * HOUR,
        arguments: { path: "notes/week.md", content: "# This week\n\n- relay: queue survives a kill\n- page: history\n", mode: { append: false, retries: 2, owner: null } },
      }),
    ],
    clarifications: [
      clarification({
        created_at: now - 5 * MINUTE,
        expires_at: now + 5 * HOUR,
        context: "Both branches are green. main has two fixes that release-2 lacks.",
        suggested_answers: ["main", "release-2", "Neither: wait until Monday"],
      }),
    ],
    elicitations: [
      elicitation({ created_at: now - 4 * MINUTE, expires_at: now + 20 * MINUTE }),
      elicitation({
        server_name: "calendar.example",
        message: "Book the meeting room",
        field_name: null,
        sensitive: false,
        created_at: now - 3 * MINUTE,
        expires_at: now + HOUR,
        schema: {
          type: "object",
          required: ["title", "day", "people", "room"],
          properties: {
            title: { type: "string", title: "Title", minLength: 3, maxLength: 60 },
            contact: { type: "string", format: "email", title: "Contact", description: "Gets the confirmation." },
            day: { type: "string", format: "date", title: "Day", default: "2026-12-04" },
            people: { type: "integer", title: "People", minimum: 1, maximum: 12, default: 4 },
            room: { type: "string", title: "Room", oneOf: [{ const: "n", title: "North room" }, { const: "s", title: "South room" }] },
            extras: { type: "array", title: "Extras", items: { type: "string", enum: ["Projector", "Coffee", "Whiteboard"] }, default: ["Coffee"] },
            catering: { type: "boolean", title: "With catering", default: false },
          },
        },
      }),
      elicitation({ server_name: "files.example", message: "Empty the waste basket of 214 files?", field_name: null, sensitive: false, is_confirmation: true, created_at: now - 2 * MINUTE }),
    ],
  };
}

export function historySample() {
  const now = Date.now();
  const entry = (kind, item, over) => ({ request_id: item.request_id, kind, created_at: item.created_at, item, state: "resolved", ...over });
  const list = [
    entry("approval", approval({ summary: "Deploy main to production", created_at: now - 40 * MINUTE, arguments: { ref: "main", stage: "production" } }), {
      ended_at: now - 38 * MINUTE,
      resolved_by: "device:Pixel 9",
      outcome: { decision: "approved" },
      late_answers: [{ by: "web", at: now - 37 * MINUTE, outcome: { decision: "rejected", reason: "Not on a Friday" } }],
    }),
    entry("approval", approval({ tool_name: "Bash", summary: "Send the newsletter to 4,120 people", created_at: now - 3 * HOUR }), {
      ended_at: now - 3 * HOUR + 4 * MINUTE,
      resolved_by: "web",
      outcome: { decision: "rejected", reason: "The draft still has a wrong date in it." },
    }),
    entry("clarification", clarification({ created_at: now - 5 * HOUR, context: "Both are green." }), {
      ended_at: now - 5 * HOUR + MINUTE,
      resolved_by: "token:laptop",
      outcome: { answer: "main" },
    }),
    entry("approval", approval({ summary: "Rotate the signing key", created_at: now - 26 * HOUR }), { state: "expired", ended_at: now - 25 * HOUR, resolved_by: "timeout" }),
    entry("elicitation", elicitation({ created_at: now - 28 * HOUR }), { ended_at: now - 28 * HOUR + MINUTE, resolved_by: "device:Pixel 9", outcome: { action: "accept" } }),
    entry("elicitation", elicitation({ message: "Share your location with the weather server?", server_name: "weather.example", is_confirmation: true, field_name: null, created_at: now - 30 * HOUR }), {
      ended_at: now - 30 * HOUR + MINUTE,
      resolved_by: "web",
      outcome: { action: "decline" },
    }),
    entry("approval", approval({ summary: "Open a pull request", created_at: now - 31 * HOUR }), { state: "cancelled", ended_at: now - 31 * HOUR + 20_000 }),
  ];
  for (let i = 0; i < 60; i++) {
    const at = now - (48 + i * 5) * HOUR;
    list.push(entry("approval", approval({ tool_name: "backup", summary: `Nightly backup, part ${60 - i}`, agent_label: "cron", created_at: at }), { ended_at: at + 1000, resolved_by: "rule:backups", outcome: { decision: "approved" } }));
  }
  return list;
}

const hex = (seed) => Array.from({ length: 64 }, (_, i) => ((i * 7 + seed * 13 + ((i * seed) % 11)) % 16).toString(16)).join("");

export function devicesSample() {
  const now = Date.now();
  return [
    { key: hex(3), name: "Pixel 9", state: "authorized", platform: "android", device_info: { platform: "android", model: "Pixel 9", os_version: "16", app_version: "1.4.0", device_name: "Pixel 9" }, verification_code: "402 917", created_at: now - 400 * HOUR, last_seen: now, online: true },
    { key: hex(5), name: "Terminal at work", state: "authorized", platform: "android", device_info: { platform: "cli", app_version: "0.1.0" }, verification_code: "118 530", created_at: now - 90 * HOUR, last_seen: now - 7 * HOUR, online: false },
  ];
}

export const pendingDevice = () => ({ key: hex(9), name: "", state: "pending", platform: "ios", device_info: { platform: "ios", model: "iPhone 17", os_version: "27.1", app_version: "2.0" }, verification_code: "731 046", created_at: Date.now(), last_seen: null, online: false });

export function pluginsSample() {
  const now = Date.now();
  return [
    {
      id: "mobile-connector",
      name: "Mobile connector",
      description: "Connects the Inbox with phones and other devices through a relay that cannot read what it carries.",
      enabled: true,
      config: { relay_url: "wss://relay.example/v1/ws", pairing_ttl: 300, require_device_confirmation: true, notify_delay_secs: 20 },
      schema: {
        type: "object",
        additionalProperties: false,
        properties: {
          relay_url: { type: "string", title: "Relay", description: "Address of the relay, beginning with wss://. Empty: the connector rests.", default: "" },
          pairing_ttl: { type: "integer", title: "Pairing window", description: "Seconds that a pairing code stays valid.", minimum: 30, maximum: 600, default: 300 },
          require_device_confirmation: { type: "boolean", title: "Ask before admitting a device", description: "A device that has scanned the code waits until you admit it.", default: true },
          notify_delay_secs: { type: "integer", title: "Delay before phones are told", description: "Seconds in which you may answer here first.", minimum: 0, maximum: 3600, default: 20 },
          relay_ca: { type: "string", title: "Private certificate authority", description: "PEM file, for a relay whose certificate is your own." },
        },
      },
      status: { state: "running", message: "Connected to relay.example.", since: now - 3 * HOUR },
    },
    {
      id: "weather",
      name: "Weather",
      description: "Tells when rain is on its way.",
      enabled: true,
      config: {},
      schema: { type: "object", properties: { place: { type: "string", title: "Place" }, unit: { type: "string", title: "Unit", enum: ["celsius", "fahrenheit"], default: "celsius" } }, required: ["place"] },
      status: { state: "failed", message: "The place is not set. Write the name of a town.", since: now - 5 * MINUTE },
    },
    { id: "mail", name: "Mail", description: "Asks before a message is sent.", enabled: false, config: {}, schema: { type: "object", properties: {} }, status: { state: "disabled", since: now - 90 * HOUR } },
  ];
}

export function bypassesSample() {
  const now = Date.now();
  return [
    { id: "b1", tool_name: "Bash", agent_label: "coding agent in ~/skald", session: null, created_at: now - 4 * MINUTE, expires_at: now + 11 * MINUTE, created_by: "web", uses: 3 },
    { id: "b2", tool_name: "Edit", agent_label: "coding agent in ~/skald", session: "3f2a", created_at: now - 20 * MINUTE, expires_at: null, created_by: "device:Pixel 9", uses: 1 },
  ];
}
