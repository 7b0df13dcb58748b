import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { loader } from "./load.mjs";

let vite, f, t;
before(async () => {
  vite = await loader();
  f = await vite.load("format.ts");
  ({ t } = await vite.load("strings.ts"));
});
after(() => vite.close());

const NOW = Date.UTC(2026, 10, 30, 12, 0, 0);

test("times are told in the largest unit that fits", () => {
  assert.equal(f.ago(NOW - 20_000, NOW), "now");
  assert.equal(f.ago(NOW - 5 * 60_000, NOW), "5 minutes ago");
  assert.equal(f.ago(NOW - 3 * 3_600_000, NOW), "3 hours ago");
  assert.equal(f.ago(NOW - 26 * 3_600_000, NOW), "yesterday");
  assert.equal(f.span(45_000), "45 seconds");
  assert.equal(f.span(90 * 60_000), "90 minutes");
  assert.equal(f.span(-5), "0 seconds");
  assert.equal(f.countdown(247_000), "4:07");
  assert.equal(f.countdown(-1), "0:00");
});

test("whoever acted is named in words, however the host writes it", () => {
  assert.equal(f.actor("web"), "you, on the page");
  assert.equal(f.actor({ kind: "owner" }), "you, on the page");
  assert.equal(f.actor("device:Ada's phone: blue"), "the device “Ada's phone: blue”");
  assert.equal(f.actor({ kind: "device", key: "ab".repeat(32), name: "Pixel" }), "the device “Pixel”");
  assert.equal(f.actor("token:ci"), "the script “ci”");
  assert.equal(f.actor("rule:bypass 3 (deploy)"), "the rule “bypass 3 (deploy)”");
  assert.equal(f.actor("timeout"), "the clock");
  assert.equal(f.actor(undefined), "someone else");
});

test("fault_24_a_timeout_is_never_shown_as_a_refusal", () => {
  const expired = f.ending("expired", undefined);
  assert.equal(expired.text, t.ending.expired);
  assert.notEqual(expired.tone, "bad");
  // Even where a host adds an outcome to an expired item.
  assert.deepEqual(f.ending("expired", { decision: "rejected" }), expired);
  assert.notEqual(f.ending("cancelled", undefined).tone, "bad");
  assert.equal(f.ending("resolved", { decision: "rejected" }).tone, "bad");
});

test("declined and dismissed are different answers", () => {
  assert.notEqual(f.outcomeWord({ action: "decline" }).text, f.outcomeWord({ action: "cancel" }).text);
  assert.equal(f.outcomeWord({ answer: "" }).text, t.ending.answered);
});

test("a verification code is grouped, and left alone where it is none", () => {
  assert.equal(f.codeGroups("042917"), "042 917");
  assert.equal(f.codeGroups("042 917"), "042 917");
  assert.equal(f.codeGroups("unknown"), "unknown");
});

test("a device without any name is told by its key", () => {
  assert.equal(f.deviceName({ name: " ", device_info: { device_name: "Kitchen" } }), "Kitchen");
  assert.match(f.deviceName({ key: "0123456789abcdef" }), /01234567/);
});

test("every string of the catalogue says something", () => {
  const walk = (value, path) => {
    if (typeof value === "string") assert.notEqual(value.trim(), "", path);
    else if (typeof value === "object") for (const [k, v] of Object.entries(value)) walk(v, `${path}.${k}`);
  };
  walk(t, "t");
  assert.equal(t.inbox.lead(1), "1 item waits for you.");
  assert.equal(t.inbox.lead(1200), "1,200 items wait for you.");
});
