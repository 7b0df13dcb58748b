import assert from "node:assert/strict";
import { test } from "node:test";
import { approval, devicesSample, pluginsSample } from "../../dev/samples.mjs";
import { harness, until } from "./setup.mjs";

const { visit } = harness();

test("pairing: code with a countdown, the same digits to compare, admitted", async () => {
  const { page, fake } = await visit("/devices");
  await page.getByRole("button", { name: "Pair a device" }).click();
  const qr = page.getByAltText("QR code for pairing");
  await qr.waitFor();
  assert.ok(await qr.evaluate((img) => img.decode().then(() => img.naturalWidth > 100)));
  await page.getByText(/Valid for (5:00|4:5\d)/).waitFor();
  const device = fake.pairNow();
  await page.getByText("731 046").waitFor();
  await qr.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Admit" }).click();
  await page.getByText("iPhone 17 is admitted.").waitFor();
  await page.locator(`.row[data-device="${device.key}"]`).waitFor();
  assert.equal(fake.devices.find((d) => d.key === device.key).state, "authorized");
});

test("a device whose code differs is refused and gone", async () => {
  const { page, fake } = await visit("/devices");
  await page.getByRole("heading", { name: "Your devices" }).waitFor();
  const device = fake.pairNow();
  await page.getByRole("button", { name: "Refuse" }).click();
  await page.getByText("731 046").waitFor({ state: "detached" });
  assert.ok(!fake.devices.some((d) => d.key === device.key));
});

test("an expired code gives way to a new one", async () => {
  const { page, fake } = await visit("/devices", { fake: { pairingTtl: 1 } });
  await page.getByRole("button", { name: "Pair a device" }).click();
  await page.getByText("This code has expired.").waitFor();
  fake.pairingTtl = 300;
  await page.getByRole("button", { name: "Make a new code" }).click();
  await page.getByAltText("QR code for pairing").waitFor();
  assert.equal(fake.pairings.size, 2);
});

for (const skew of [-20, 20]) {
  test(`a browser whose clock is wrong by ${skew} minutes shows the time that is truly left`, async () => {
    const { page } = await visit("/devices", { fake: { skew: skew * 60_000 } });
    await page.getByRole("button", { name: "Pair a device" }).click();
    await page.getByAltText("QR code for pairing").waitFor();
    await page.getByText(/Valid for (5:00|4:5\d)/).waitFor();
  });
}

test("a device is renamed, and revoked only after one is told what that does", async () => {
  const { page, fake } = await visit("/devices");
  const key = fake.devices[0].key;
  await page.getByRole("button", { name: "Rename Pixel 9" }).click();
  await page.getByLabel("Name", { exact: true }).fill("Ada's phone");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Ada's phone", exact: true }).waitFor();
  await page.getByRole("button", { name: "Revoke Ada's phone" }).click();
  await page.getByRole("dialog").getByText("cut off at once").waitFor();
  await page.keyboard.press("Escape");
  assert.ok(fake.devices.some((d) => d.key === key));
  await page.getByRole("button", { name: "Revoke Ada's phone" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("heading", { name: "Ada's phone", exact: true }).waitFor({ state: "detached" });
  assert.ok(!fake.devices.some((d) => d.key === key));
});

for (const [what, change, text] of [
  ["off", { enabled: false, status: { state: "disabled", since: 1 } }, "The mobile connector is off"],
  ["without a relay", { config: {}, status: { state: "idle", since: 1 } }, "has no relay yet"],
  ["failing", { status: { state: "degraded", message: "The relay does not answer.", since: 1 } }, "The relay does not answer."],
]) {
  test(`devices: a connector that is ${what} is explained, with the way to its settings`, async () => {
    const plugins = pluginsSample();
    Object.assign(plugins[0], change);
    const { page } = await visit("/devices", { fake: { plugins } });
    await page.getByText(text).waitFor();
    await page.getByRole("link", { name: "Open its settings" }).click();
    await page.getByRole("heading", { level: 1, name: "Mobile connector" }).waitFor();
  });
}

test("a plugin is switched on and its state follows live", async () => {
  const { page, fake } = await visit("/plugins");
  const row = page.locator("[data-plugin=mail]");
  await row.getByRole("switch", { name: "Enable Mail" }).click();
  await row.getByText("Running").waitFor();
  fake.plugins.find((p) => p.id === "mail").status = { state: "failed", message: "The mailbox is full.", since: Date.now() };
  fake.emit("plugins");
  await row.getByText("The mailbox is full.").waitFor();
});

test("settings are drawn from the schema, refused per field, then saved as a whole", async () => {
  const { page, fake } = await visit("/plugins/mobile-connector");
  await page.getByLabel("Pairing window").fill("5");
  await page.getByLabel("Relay", { exact: true }).fill("http://relay.example");
  await page.getByRole("button", { name: "Save settings" }).click();
  await page.getByText("Must be at least 30.").waitFor();
  await page.getByLabel("Pairing window").fill("120");
  await page.getByRole("button", { name: "Save settings" }).click();
  await page.getByText("Begin the address with wss://").waitFor();
  assert.equal(await page.getByLabel("Relay", { exact: true }).inputValue(), "http://relay.example");
  await page.getByLabel("Relay", { exact: true }).fill("wss://other.example/v1/ws");
  await page.getByLabel("Ask before admitting a device").uncheck();
  await page.getByRole("button", { name: "Save settings" }).click();
  await page.getByText("Settings saved.").waitFor();
  assert.deepEqual(fake.plugins[0].config, { relay_url: "wss://other.example/v1/ws", pairing_ttl: 120, require_device_confirmation: false, notify_delay_secs: 20 });
});

test("a change from elsewhere does not overwrite what one is editing", async () => {
  const { page, fake } = await visit("/plugins/mobile-connector");
  await page.getByLabel("Pairing window").fill("200");
  fake.plugins[0].config = { ...fake.plugins[0].config, notify_delay_secs: 0 };
  fake.emit("plugins");
  await page.getByText("changed elsewhere").waitFor();
  assert.equal(await page.getByLabel("Pairing window").inputValue(), "200");
  await page.getByRole("button", { name: "Discard changes" }).click();
  assert.equal(await page.getByLabel("Delay before phones are told").inputValue(), "0");
});

test("a token is shown once and can be revoked", async () => {
  const { page, fake } = await visit("/settings");
  await page.getByLabel("Name of the new token").fill("backup");
  await page.getByRole("button", { name: "Create token" }).click();
  const shown = page.getByRole("dialog").locator("code");
  assert.match(await shown.textContent(), /^skald_/);
  await page.getByRole("button", { name: "I have copied it" }).click();
  assert.ok(!(await page.content()).includes("skald_"));
  await page.getByRole("button", { name: "Revoke the token backup" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("button", { name: "Revoke the token backup" }).waitFor({ state: "detached" });
  assert.ok(!fake.tokens.some((x) => x.name === "backup"));
});

test("a bypass is listed with its end and can be ended at once", async () => {
  const { page, fake } = await visit("/settings");
  await page.locator("[data-bypass=b1]").getByText(/until .* left/).waitFor();
  await page.getByRole("button", { name: "End now: the approval of Bash" }).click();
  await page.locator("[data-bypass=b1]").waitFor({ state: "detached" });
  assert.deepEqual(fake.bypasses.map((b) => b.id), ["b2"]);
});

test("what questions wait for by default is set in a unit of one's choice", async () => {
  const { page, fake } = await visit("/settings");
  await page.getByLabel("Questions expire after").fill("90");
  await page.getByLabel("Unit").selectOption("minutes");
  await page.getByLabel("Keep the history for").fill("0");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("at least 1").waitFor();
  await page.getByLabel("Keep the history for").fill("30");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await until(page, () => fake.settings.history_days === 30);
  assert.deepEqual(fake.settings, { default_timeout_secs: 5400, history_days: 30 });
});

test("the theme is chosen and kept, and nothing else is", async () => {
  const { page } = await visit("/settings");
  await page.getByLabel("Dark").check({ force: true });
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await page.reload();
  await page.waitForSelector("h1");
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  assert.deepEqual(await page.evaluate(() => Object.entries(localStorage)), [["skald.theme", "dark"]]);
});

test("signing out leaves nothing on the page", async () => {
  const { page, fake } = await visit("/#signin=let-me-in", { fake: { open: false } });
  await page.getByRole("link", { name: "Settings" }).click();
  await page.locator("#about ~ button", { hasText: "Sign out" }).click();
  await page.getByText("You have signed out.").waitFor();
  assert.equal(fake.sessions.size, 0);
  await until(page, () => fake.streams.size === 0);
});

test("history is paged, tells late answers and never calls an expiry a refusal", async () => {
  const { page, fake } = await visit("/history");
  await page.waitForFunction(() => document.querySelectorAll("[data-history]").length === 30);
  await page.getByRole("button", { name: "Show older" }).click();
  await page.waitForFunction(() => document.querySelectorAll("[data-history]").length === 60);
  const expired = page.locator("[data-history]", { hasText: "Rotate the signing key" });
  await expired.getByText("Expired without an answer").waitFor();
  assert.equal(await expired.locator(".verdict.bad").count(), 0);
  const first = page.locator("[data-history]", { hasText: "1 late answer" });
  await first.getByRole("button").first().click();
  await first.getByText("Not on a Friday").waitFor();
  await first.getByText('"production"').waitFor();
  const item = fake.add("approval", approval({ summary: "Fresh one" }));
  fake.resolveElsewhere(item.request_id, { decision: "approved" });
  await page.locator("[data-history]", { hasText: "Fresh one" }).waitFor();
  await page.waitForFunction(() => document.querySelectorAll("[data-history]").length === 61);
});

test("a device sees and answers, and is offered nothing it may not do", async () => {
  const principal = { kind: "device", name: "Pixel 9", key: devicesSample()[0].key };
  const { page, fake } = await visit("/inbox", { fake: { open: false, principal } });
  await page.getByText("You are here through Pixel 9").waitFor();
  await page.locator("[data-kind=approval]").first().getByRole("button", { name: "Approve", exact: true }).click();
  await until(page, () => fake.answers.length === 1);
  const names = ["Pair a device", /^Revoke/, /^Rename/, /^Admit/, "Save settings", "Create token", /^End /, "Sign out", "Save"];
  for (const path of ["Devices", "Plugins", "Settings"]) {
    await page.getByRole("link", { name: path }).first().click();
    await page.getByRole("heading", { level: 1, name: path }).waitFor();
    await page.waitForFunction(() => !document.querySelector(".loading"));
    for (const name of names) assert.equal(await page.getByRole("button", { name, exact: true }).count(), 0, `${name} on ${path}`);
    if (path === "Plugins") assert.equal(await page.getByRole("switch").count(), 0);
  }
});

test("the page obeys its own policy: no inline script or style, no foreign address", async () => {
  const { page, fake } = await visit("/inbox");
  const found = await page.evaluate(() => ({
    styles: document.querySelectorAll("[style], style").length,
    scripts: [...document.scripts].filter((s) => !s.src).length,
    loaded: performance.getEntriesByType("resource").map((r) => new URL(r.name).origin),
  }));
  assert.equal(found.styles, 0);
  assert.equal(found.scripts, 0);
  assert.deepEqual([...new Set(found.loaded)], [fake.url]);
});
