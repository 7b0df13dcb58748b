import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";
import { readFileSync } from "node:fs";
import { pendingDevice } from "../../dev/samples.mjs";
import { harness } from "./setup.mjs";

const { visit } = harness();
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const pages = {
  inbox: { path: "/inbox" },
  "the reason form": { path: "/inbox", act: (page) => page.getByRole("button", { name: "Reject with a reason" }).first().click() },
  "errors in a form": { path: "/inbox", act: (page) => page.locator("[data-kind=elicitation]").nth(1).getByRole("button", { name: "Accept" }).click() },
  "the empty inbox": { path: "/inbox", fake: { items: [], devices: [] } },
  "the list of shortcuts": { path: "/inbox", act: (page) => page.keyboard.press("?") },
  history: { path: "/history", act: (page) => page.locator(".entry button").first().click() },
  devices: { path: "/devices", fake: { devices: [pendingDevice()] } },
  pairing: { path: "/devices", act: async (page) => (await page.getByRole("button", { name: "Pair a device" }).click(), page.waitForSelector(".qr")) },
  "the revoke dialog": { path: "/devices", act: (page) => page.getByRole("button", { name: /^Revoke/ }).first().click() },
  plugins: { path: "/plugins" },
  "a plugin": { path: "/plugins/mobile-connector" },
  settings: { path: "/settings" },
  "sign-in": { path: "/", fake: { open: false } },
  "a lost connection": { path: "/inbox", act: async (page, fake) => ((fake.down = true), fake.dropStreams(), page.waitForSelector(".lost")) },
  "an unknown page": { path: "/nowhere" },
};

for (const [name, spec] of Object.entries(pages)) {
  for (const theme of ["light", "dark"]) {
    test(`axe finds nothing on ${name} in the ${theme} theme`, async () => {
      const { page, fake } = await visit(spec.path, { fake: spec.fake, theme, width: 1280 });
      await page.waitForFunction(() => !document.querySelector(".loading"));
      await spec.act?.(page, fake);
      // Through the debugger, as an extension would: the page's own policy allows no foreign script.
      await page.evaluate(axe);
      const found = await page.evaluate(async () => {
        const result = await window.axe.run(document, { resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] });
        return result.violations.map((v) => `${v.id}: ${v.nodes.map((n) => `${n.target.join(" ")} (${n.failureSummary})`).join(" | ")}`);
      });
      assert.deepEqual(found, []);
    });
  }
  test(`${name} fits a narrow phone without scrolling sideways`, async () => {
    const { page, fake } = await visit(spec.path, { fake: spec.fake, width: 360 });
    await page.waitForFunction(() => !document.querySelector(".loading"));
    await spec.act?.(page, fake);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), 0);
  });
}
