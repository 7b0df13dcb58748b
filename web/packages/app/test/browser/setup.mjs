// A browser and a fake host for each test file. The page must have been built before.
import { after, afterEach, before } from "node:test";
import { launch } from "../../dev/browser.mjs";
import { Fake } from "../../dev/fake-server.mjs";

export function harness() {
  let browser;
  const open = [];
  const faults = [];
  before(async () => {
    browser = await launch();
  });
  after(() => browser?.close());
  afterEach(async () => {
    for (const x of open.splice(0)) await x.close();
    const seen = faults.splice(0);
    if (seen.length > 0) throw new Error(`the page complained: ${seen.join("; ")}`);
  });
  return {
    /** A fake host and a page on it. */
    async visit(path, { fake: over = {}, width = 1280, theme = "light" } = {}) {
      const fake = await new Fake({ open: true, ...over }).listen();
      const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: theme, reducedMotion: "reduce", locale: "en-GB" });
      open.push(context, fake);
      const page = await context.newPage();
      page.setDefaultTimeout(8000);
      page.on("pageerror", (e) => faults.push(String(e)));
      page.on("console", (m) => {
        // What the browser itself says of refused requests is part of several tests.
        if (m.type() === "error" && !/Failed to load resource|ERR_/.test(m.text())) faults.push(m.text());
      });
      await page.goto(fake.url + path);
      await page.waitForSelector("h1");
      // What is counted at once must be there: the page has drawn all that it asked for.
      await page.waitForFunction(() => !document.querySelector(".loading"));
      return { page, fake, context };
    },
  };
}

/** Waits until `check` holds, on the events that make it hold: the page's own and the fake's. */
export async function until(page, check) {
  while (!check()) await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(resolve)));
}
