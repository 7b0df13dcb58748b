// Pictures of every page, for looking at: node dev/shots.mjs FOLDER [NAME-PART]
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { launch } from "./browser.mjs";
import { Fake } from "./fake-server.mjs";
import { devicesSample } from "./samples.mjs";

const out = process.argv[2] ?? "shots";
const only = process.argv[3] ?? "";
mkdirSync(out, { recursive: true });

const pages = {
  inbox: { path: "/inbox" },
  empty: { path: "/inbox", fake: { items: [], devices: [] } },
  history: { path: "/history", act: async (page) => page.locator(".entry button").first().click() },
  devices: { path: "/devices", act: async (page, fake) => (fake.pairNow(), page.waitForSelector(".code-large")) },
  pairing: { path: "/devices", act: async (page) => (await page.getByRole("button", { name: "Pair a device" }).click(), page.waitForSelector(".qr")) },
  plugins: { path: "/plugins" },
  plugin: { path: "/plugins/mobile-connector" },
  settings: { path: "/settings" },
  signin: { path: "/", fake: { open: false } },
  lost: { path: "/inbox", act: async (page, fake) => ((fake.down = true), fake.dropStreams(), page.waitForSelector(".lost")) },
  device: { path: "/devices", fake: { principal: { kind: "device", name: "Pixel 9", key: devicesSample()[0].key } } },
  reject: { path: "/inbox", act: async (page) => page.getByRole("button", { name: "Reject with a reason" }).first().click() },
  keys: { path: "/inbox", act: async (page) => (await page.keyboard.press("j"), await page.keyboard.press("a"), page.waitForSelector("dialog[open]")) },
};

const browser = await launch();
for (const [name, spec] of Object.entries(pages)) {
  if (!name.includes(only)) continue;
  for (const theme of ["light", "dark"]) {
    for (const width of [390, 1280]) {
      const fake = await new Fake({ open: true, ...spec.fake }).listen();
      const context = await browser.newContext({ viewport: { width, height: width < 500 ? 844 : 900 }, colorScheme: theme, reducedMotion: "reduce" });
      const page = await context.newPage();
      page.on("console", (m) => m.type() === "error" && !/Failed to load|ERR_/.test(m.text()) && console.log(name, m.text()));
      page.on("pageerror", (e) => console.log(name, e));
      await page.goto(fake.url + spec.path);
      await page.waitForSelector("h1");
      await page.waitForLoadState("load");
      await page.waitForFunction(() => !document.querySelector(".loading"));
      await spec.act?.(page, fake);
      await page.waitForTimeout(150);
      await page.screenshot({ path: join(out, `${name}-${theme}-${width}.png`), fullPage: !["lost", "keys", "reject"].includes(name) });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (wide > 0) console.log(`${name} at ${width}: scrolls sideways by ${wide} px`);
      await context.close();
      await fake.close();
    }
  }
}
await browser.close();
