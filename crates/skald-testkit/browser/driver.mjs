// Drives the system's Chromium for the Rust tests: one JSON request a line on standard input, one JSON answer a line on
// standard output. It waits for what a page shows and never for time to pass.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const { chromium } = createRequire(new URL('../../../web/package.json', import.meta.url))('playwright-core');

const PATIENCE = 60_000;
const browser = await chromium.launch({
  executablePath: process.env.SKALD_CHROMIUM ?? '/usr/bin/chromium',
  args: [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--hide-scrollbars',
  ],
});

/** Pages by name. Each has a context of its own: cookies of one person never reach the other. */
const pages = new Map();

async function page(name) {
  const known = pages.get(name);
  if (known) return known;
  const context = await browser.newContext({ viewport: { width: 1180, height: 800 }, deviceScaleFactor: 1 });
  context.setDefaultTimeout(PATIENCE);
  const opened = { page: await context.newPage(), faults: [], requests: [] };
  opened.page.on('pageerror', (error) => opened.faults.push(`error: ${error.message}`));
  opened.page.on('console', (message) => {
    if (message.type() === 'error') opened.faults.push(`console: ${message.text()}`);
  });
  opened.page.on('request', (request) => opened.requests.push(request.url()));
  pages.set(name, opened);
  return opened;
}

/** What a request names: a CSS selector, a role with a name, a label, or a text. */
function locate(on, { selector, role, name, label, text, exact = false, nth = 0 }) {
  const found = selector
    ? on.locator(selector)
    : role
      ? on.getByRole(role, name === undefined ? {} : { name, exact })
      : label
        ? on.getByLabel(label, { exact })
        : on.getByText(text, { exact });
  return found.nth(nth);
}

const acts = {
  goto: async ({ page: on }, { url }) => void (await on.goto(url)),
  reload: async ({ page: on }) => void (await on.reload()),
  click: async ({ page: on }, what) => locate(on, what).click(),
  fill: async ({ page: on }, what) => locate(on, what).fill(what.value),
  press: async ({ page: on }, { key }) => on.keyboard.press(key),
  wait: async ({ page: on }, what) => locate(on, what).waitFor({ state: what.state ?? 'visible' }),
  count: async ({ page: on }, { selector }) => on.locator(selector).count(),
  text: async ({ page: on }, what) => locate(on, what).innerText(),
  value: async ({ page: on }, what) => locate(on, what).inputValue(),
  attribute: async ({ page: on }, what) => locate(on, what).getAttribute(what.attribute),
  check: async ({ page: on }, what) => locate(on, what).setChecked(what.value),
  html: async ({ page: on }) => on.content(),
  url: async ({ page: on }) => on.url(),
  evaluate: async ({ page: on }, { expression }) => on.evaluate(expression),
  look: async ({ page: on }, { width, height, scheme }) => {
    await on.setViewportSize({ width, height });
    await on.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
  },
  screenshot: async ({ page: on }, { path, selector, whole }) => {
    await (selector ? on.locator(selector).first().screenshot({ path }) : on.screenshot({ path, fullPage: !!whole }));
  },
  faults: async ({ faults }) => faults.splice(0),
  requests: async ({ requests }) => requests.slice(),
};

console.log(JSON.stringify({ ready: true }));
for await (const line of createInterface({ input: process.stdin })) {
  const { id, act, on = 'owner', ...rest } = JSON.parse(line);
  try {
    const value = await acts[act](await page(on), rest);
    console.log(JSON.stringify({ id, value: value ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ id, error: String(error?.message ?? error) }));
  }
}
await browser.close();
