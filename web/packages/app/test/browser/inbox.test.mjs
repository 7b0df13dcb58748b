import assert from "node:assert/strict";
import { test } from "node:test";
import { approval, clarification, elicitation } from "../../dev/samples.mjs";
import { harness } from "./setup.mjs";

const { visit } = harness();
const withItems = (...items) => ({ fake: { items } });
const a = (over) => ({ kind: "approval", item: approval(over) });
const c = (over) => ({ kind: "clarification", item: clarification(over) });
const e = (over) => ({ kind: "elicitation", item: elicitation(over) });
const card = (page, item) => page.locator(`[data-item="${item.item.request_id}"]`);

test("a sign-in link signs in and leaves no trace in the address bar or the history", async () => {
  const { page, fake } = await visit("/#signin=let-me-in", { fake: { open: false } });
  await page.getByRole("heading", { level: 1, name: "Inbox" }).waitFor();
  assert.equal(page.url(), `${fake.url}/`);
  await page.goto("about:blank");
  await page.goBack();
  await page.getByRole("heading", { level: 1, name: "Inbox" }).waitFor();
  assert.ok(!page.url().includes("signin"));
});

test("a used sign-in link says what to do", async () => {
  const { page } = await visit("/#signin=used-up", { fake: { open: false } });
  await page.getByText("has been used or has expired").waitFor();
  await page.getByText("skald link").waitFor();
  assert.ok(!page.url().includes("signin"));
});

test("a session that ends is noticed and said", async () => {
  const { page, fake } = await visit("/#signin=let-me-in", { fake: { open: false } });
  await page.getByText("Live", { exact: true }).waitFor();
  fake.sessions.clear();
  fake.dropStreams();
  await page.getByText("Your session has ended").waitFor();
  assert.equal(await page.locator("[data-item]").count(), 0);
});

test("nothing of the Inbox is kept in the browser's storage", async () => {
  const { page } = await visit("/inbox");
  await page.locator("[data-kind=clarification] textarea").fill("a draft");
  const kept = await page.evaluate(async () => [...Object.keys(localStorage), ...Object.keys(sessionStorage), ...(await indexedDB.databases()).map((d) => d.name), ...(await caches.keys())]);
  assert.deepEqual(kept, []);
});

test("an approval is approved and the next card takes the focus", async () => {
  const first = a({ summary: "First", created_at: 1 });
  const second = a({ summary: "Second", created_at: 2 });
  const { page, fake } = await visit("/inbox", withItems(first, second));
  await card(page, first).getByRole("button", { name: "Approve", exact: true }).click();
  await card(page, first).waitFor({ state: "detached" });
  assert.deepEqual(fake.answers, [{ id: first.item.request_id, body: { decision: "approved" } }]);
  await page.waitForFunction((id) => document.activeElement?.dataset.item === id, second.item.request_id);
  assert.match(await page.title(), /^\(1\) Inbox/);
});

test("an approval is rejected at a press, or with a reason", async () => {
  const first = a({ created_at: 1 });
  const second = a({ created_at: 2 });
  const { page, fake } = await visit("/inbox", withItems(first, second));
  await card(page, first).getByRole("button", { name: "Reject", exact: true }).click();
  await card(page, first).waitFor({ state: "detached" });
  await card(page, second).getByRole("button", { name: "Reject with a reason" }).click();
  await page.waitForFunction(() => document.activeElement?.tagName === "TEXTAREA");
  await page.keyboard.type("Not today");
  await card(page, second).getByRole("button", { name: "Reject with this reason" }).click();
  await card(page, second).waitFor({ state: "detached" });
  assert.deepEqual(fake.answers.map((x) => x.body), [{ decision: "rejected" }, { decision: "rejected", reason: "Not today" }]);
});

test("longer approvals: fifteen minutes always, the session only where there is one", async () => {
  const plain = a({ created_at: 1 });
  const bound = a({ created_at: 2, session: "s1" });
  const { page, fake } = await visit("/inbox", withItems(plain, bound));
  assert.equal(await card(page, plain).getByRole("button", { name: "Approve for this session" }).count(), 0);
  await card(page, bound).getByRole("button", { name: "Approve for this session" }).click();
  await card(page, bound).waitFor({ state: "detached" });
  await card(page, plain).getByRole("button", { name: "Approve for 15 minutes" }).click();
  await card(page, plain).waitFor({ state: "detached" });
  assert.deepEqual(fake.answers.map((x) => x.body.bypass_secs), [0, 900]);
});

test("fault_25_the_whole_command_is_on_the_card_and_can_be_reached", async () => {
  const command = `${Array.from({ length: 300 }, (_, i) => `step-${i} --with "quite a long argument" &&`).join(" \\\n")} rm -rf build`;
  const item = a({ blocks: { v: 1, blocks: [{ type: "block", label: "Command", value: command, value_type: "command" }] } });
  const { page } = await visit("/inbox", { ...withItems(item), width: 390 });
  const pre = card(page, item).locator("pre");
  assert.equal(await pre.textContent(), command);
  await card(page, item).getByRole("button", { name: "Show in full height" }).click();
  assert.ok(await pre.evaluate((x) => x.scrollHeight <= x.clientHeight && x.scrollWidth <= x.clientWidth));
});

test("an address in the details is text, never a link", async () => {
  const item = a({ blocks: { v: 1, blocks: [{ type: "key_value", key: "Page", value: "https://good.example@evil.example/x", value_type: "url" }] } });
  const { page } = await visit("/inbox", withItems(item));
  assert.equal(await card(page, item).locator("a").count(), 0);
  assert.equal(await card(page, item).locator(".address strong").textContent(), "evil.example");
});

test("a secret is masked until it is asked for", async () => {
  const item = a({ blocks: { v: 1, blocks: [{ type: "key_value", key: "Token", value: "hunter2", value_type: "secret" }] } });
  const { page } = await visit("/inbox", withItems(item));
  assert.ok(!(await card(page, item).textContent()).includes("hunter2"));
  await card(page, item).getByRole("button", { name: "Show" }).click();
  assert.ok((await card(page, item).textContent()).includes("hunter2"));
});

test("a question takes a suggested answer or one's own", async () => {
  const one = c({ created_at: 1, suggested_answers: ["main", "release-2"] });
  const two = c({ created_at: 2 });
  const { page, fake } = await visit("/inbox", withItems(one, two));
  await card(page, one).getByRole("button", { name: "release-2" }).click();
  await card(page, one).waitFor({ state: "detached" });
  await card(page, two).getByRole("button", { name: "Send answer" }).click();
  await card(page, two).getByText("Write an answer first.").waitFor();
  await card(page, two).getByRole("textbox").fill("the third one");
  await page.keyboard.press("Control+Enter");
  await card(page, two).waitFor({ state: "detached" });
  assert.deepEqual(fake.answers.map((x) => x.body), [{ answer: "release-2" }, { answer: "the third one" }]);
});

test("fault_22_a_secret_prompt_is_masked_and_its_value_goes_into_the_answer_alone", async () => {
  const item = e({});
  const { page, fake } = await visit("/inbox", withItems(item));
  const input = card(page, item).locator("input");
  assert.equal(await input.getAttribute("type"), "password");
  await input.fill("correct horse");
  await card(page, item).getByRole("button", { name: "Accept" }).click();
  await card(page, item).waitFor({ state: "detached" });
  assert.deepEqual(fake.answers.map((x) => x.body), [{ action: "accept", content: { password: "correct horse" } }]);
  assert.ok(!(await page.content()).includes("correct horse"));
});

test("fault_22_a_prompt_with_several_fields_shows_them_all_and_checks_each", async () => {
  const schema = { type: "object", required: ["title", "people"], properties: { title: { type: "string", title: "Title" }, people: { type: "integer", title: "People", minimum: 1 }, room: { type: "string", title: "Room", enum: ["n", "s"], enumNames: ["North", "South"] }, extras: { type: "array", title: "Extras", items: { enum: ["Tea", "Coffee"] } }, loud: { type: "boolean", title: "Loud" } } };
  const item = e({ field_name: null, sensitive: false, schema });
  const { page, fake } = await visit("/inbox", withItems(item));
  const it = card(page, item);
  await it.getByLabel("People").fill("0");
  await it.getByRole("button", { name: "Accept" }).click();
  assert.equal(await it.locator(".field-error").count(), 2);
  await page.waitForFunction(() => document.activeElement?.getAttribute("aria-invalid") === "true");
  await it.getByLabel("Title").fill("Planning");
  await it.getByLabel("People").fill("5");
  await it.getByLabel("South").check();
  await it.getByLabel("Tea").check();
  await it.getByLabel("Loud").check();
  await it.getByRole("button", { name: "Accept" }).click();
  await it.waitFor({ state: "detached" });
  assert.deepEqual(fake.answers[0].body, { action: "accept", content: { title: "Planning", people: 5, room: "s", extras: ["Tea"], loud: true } });
});

test("decline and cancel are sent as different answers", async () => {
  const one = e({ created_at: 1, is_confirmation: true, field_name: null });
  const two = e({ created_at: 2, is_confirmation: true, field_name: null });
  const { page, fake } = await visit("/inbox", withItems(one, two));
  await card(page, one).getByRole("button", { name: "Decline" }).click();
  await card(page, one).waitFor({ state: "detached" });
  await card(page, two).getByRole("button", { name: "Cancel" }).click();
  await card(page, two).waitFor({ state: "detached" });
  assert.deepEqual(fake.answers.map((x) => x.body), [{ action: "decline" }, { action: "cancel" }]);
});

test("an address to open is shown with its host and opened only by accepting", async () => {
  const item = e({ field_name: null, sensitive: false, mode: "url", message: "Sign in at the bank" });
  const { page, fake, context } = await visit("/inbox", withItems());
  item.item.url = `${fake.url}/favicon.svg`;
  fake.add("elicitation", item.item);
  await card(page, item).getByText(new URL(fake.url).host).first().waitFor();
  assert.equal(await card(page, item).locator("a").count(), 0);
  assert.equal(context.pages().length, 1);
  const opened = context.waitForEvent("page");
  await card(page, item).getByRole("button", { name: "Accept and open it" }).click();
  await opened;
  await card(page, item).waitFor({ state: "detached" });
  assert.deepEqual(fake.answers.map((x) => x.body), [{ action: "accept" }]);
});

test("an address that is no web address cannot be opened", async () => {
  const item = e({ field_name: null, sensitive: false, mode: "url", url: "javascript:alert(1)" });
  const { page } = await visit("/inbox", withItems(item));
  await card(page, item).getByText("not an ordinary web address").waitFor();
  assert.ok(await card(page, item).getByRole("button", { name: "Accept and open it" }).isDisabled());
});

test("what the host refuses is shown at the field it concerns", async () => {
  const item = e({ sensitive: false, field_name: "port", schema: { properties: { port: { type: "string", title: "Port" } } } });
  const { page, fake } = await visit("/inbox", withItems(item));
  fake.refuse = { status: 422, detail: "Some fields are wrong.", extra: { errors: [{ field: "port", message: "Not that port." }] } };
  await card(page, item).getByLabel("Port").fill("22");
  await card(page, item).getByRole("button", { name: "Accept" }).click();
  await card(page, item).getByText("Not that port.").waitFor();
  assert.equal(await card(page, item).getByLabel("Port").inputValue(), "22");
});

test("fault_23_an_item_answered_elsewhere_goes_without_a_ghost", async () => {
  const first = a({ created_at: 1, summary: "First" });
  const second = a({ created_at: 2, summary: "Second" });
  const { page, fake } = await visit("/inbox", withItems(first, second));
  await card(page, first).waitFor();
  fake.resolveElsewhere(first.item.request_id, { decision: "approved" });
  await card(page, first).waitFor({ state: "detached" });
  await page.locator(".toast", { hasText: "Approved by the device “Pixel 9”. First" }).waitFor();
  assert.ok(await card(page, second).isVisible());
});

test("a live update takes neither the draft nor the focus", async () => {
  const first = a({ created_at: 1 });
  const mine = c({ created_at: 2 });
  const { page, fake } = await visit("/inbox", withItems(first, mine));
  const field = card(page, mine).getByRole("textbox");
  await field.fill("half a sen");
  fake.resolveElsewhere(first.item.request_id, { decision: "rejected" });
  await card(page, first).waitFor({ state: "detached" });
  const added = { item: fake.add("approval", approval({ created_at: 3 })) };
  await card(page, added).waitFor();
  await page.keyboard.type("tence");
  assert.equal(await field.inputValue(), "half a sentence");
  // A look at another page does not lose it either.
  await page.getByRole("link", { name: "History" }).click();
  await page.getByRole("link", { name: /Inbox/ }).first().click();
  assert.equal(await card(page, mine).getByRole("textbox").inputValue(), "half a sentence");
});

test("an item answered elsewhere while one writes closes in place and gives the draft back", async () => {
  const mine = c({});
  const { page, fake } = await visit("/inbox", withItems(mine));
  await card(page, mine).getByRole("textbox").fill("my long answer");
  fake.resolveElsewhere(mine.item.request_id, { answer: "main" });
  await card(page, mine).getByText("my long answer").waitFor();
  await card(page, mine).getByText("Answered").waitFor();
  assert.equal(await card(page, mine).getByRole("textbox").count(), 0);
  await card(page, mine).getByRole("button", { name: "Dismiss" }).click();
  await card(page, mine).waitFor({ state: "detached" });
});

test("an answer that comes too late shows which outcome stands and by whom", async () => {
  const item = a({});
  const { page, fake } = await visit("/inbox", withItems(item));
  await card(page, item).waitFor();
  // The event is lost: the page still shows the item.
  fake.finish(item.item.request_id, "resolved", { decision: "rejected", reason: "No" }, "device:Pixel 9");
  await card(page, item).getByRole("button", { name: "Approve", exact: true }).click();
  await card(page, item).getByText("Rejected").waitFor();
  await card(page, item).getByText("by the device “Pixel 9”").waitFor();
  await card(page, item).getByText("came after this one").waitFor();
});

test("an answer to an expired item says that it expired, not that it was refused", async () => {
  const item = a({});
  const { page, fake } = await visit("/inbox", withItems(item));
  await card(page, item).waitFor();
  fake.finish(item.item.request_id, "expired", undefined, "timeout");
  await card(page, item).getByRole("button", { name: "Approve", exact: true }).click();
  await card(page, item).getByText("Expired without an answer").waitFor();
  assert.equal(await card(page, item).getByText("Rejected").count(), 0);
});

test("an answer that does not reach the host is not lost and can be sent again", async () => {
  const item = c({});
  const { page, fake } = await visit("/inbox", withItems(item));
  await card(page, item).getByRole("textbox").fill("main");
  fake.down = true;
  await card(page, item).getByRole("button", { name: "Send answer" }).click();
  await card(page, item).getByText("not confirmed").waitFor();
  fake.down = false;
  assert.equal(await card(page, item).getByRole("textbox").inputValue(), "main");
  await card(page, item).getByRole("button", { name: "Send answer" }).click();
  await card(page, item).waitFor({ state: "detached" });
  assert.equal(fake.answers.length, 1);
});

test("a press right after the list moved is taken back", async () => {
  const first = a({ created_at: 1, summary: "First" });
  const second = a({ created_at: 2, summary: "Second" });
  const { page, fake } = await visit("/inbox", withItems(first, second));
  await card(page, first).waitFor();
  // The press comes in the very frame in which the first card vanishes and the second has taken its place.
  await page.evaluate((id) => {
    new MutationObserver((_, observer) => {
      if (document.querySelector(`[data-item="${id}"]`)) return;
      observer.disconnect();
      const button = [...document.querySelectorAll("[data-item] button")].find((b) => b.textContent === "Approve");
      button.dispatchEvent(new MouseEvent("click", { bubbles: true, detail: 1 }));
    }).observe(document.body, { childList: true, subtree: true });
  }, first.item.request_id);
  fake.resolveElsewhere(first.item.request_id, { decision: "approved" });
  await page.getByText("The list changed just now").waitFor();
  assert.deepEqual(fake.answers, []);
  assert.ok(await card(page, second).isVisible());
});

test("keys move, and answer only after naming the card", async () => {
  const first = a({ created_at: 1, summary: "First" });
  const second = a({ created_at: 2, summary: "Second", tool_name: "deploy" });
  const { page, fake } = await visit("/inbox", withItems(first, second));
  await card(page, first).waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  assert.equal(await page.evaluate(() => document.activeElement?.dataset.item), second.item.request_id);
  await page.keyboard.press("a");
  await page.getByRole("dialog").getByText("Second").waitFor();
  assert.deepEqual(fake.answers, []);
  await page.keyboard.press("Enter");
  await card(page, second).waitFor({ state: "detached" });
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.keyboard.press("k");
  await page.keyboard.press("r");
  await page.getByRole("dialog").getByRole("textbox").fill("ja jr");
  await page.getByRole("dialog").getByRole("button", { name: "Reject" }).click();
  await card(page, first).waitFor({ state: "detached" });
  assert.deepEqual(fake.answers.map((x) => x.body), [{ decision: "approved" }, { decision: "rejected", reason: "ja jr" }]);
});

test("keys do nothing while one types", async () => {
  const item = c({});
  const { page, fake } = await visit("/inbox", withItems(item, a({})));
  await card(page, item).getByRole("textbox").focus();
  await page.keyboard.type("a raj? k");
  assert.equal(await page.getByRole("dialog").count(), 0);
  assert.equal(await card(page, item).getByRole("textbox").inputValue(), "a raj? k");
  assert.deepEqual(fake.answers, []);
});

test("a new item is announced politely and counted in the title", async () => {
  const { page, fake } = await visit("/inbox", { fake: { items: [] } });
  await page.getByText("Live", { exact: true }).waitFor();
  await page.getByText("Nothing waits for you").waitFor();
  fake.add("approval", approval({ summary: "Water the plants" }));
  await page.locator("[aria-live=polite]", { hasText: "Approval: Water the plants" }).waitFor({ state: "attached" });
  assert.match(await page.title(), /^\(1\)/);
});

test("a lost connection is said, retried and made up for", async () => {
  const { page, fake } = await visit("/inbox", { fake: { items: [] } });
  await page.getByText("Live", { exact: true }).waitFor();
  fake.down = true;
  fake.dropStreams();
  await page.getByText("Connection lost.").first().waitFor();
  fake.items.push({ kind: "approval", item: approval({ summary: "Asked meanwhile" }) });
  fake.down = false;
  await page.getByRole("button", { name: "Try now" }).click();
  await page.getByRole("heading", { name: "Asked meanwhile" }).waitFor();
  await page.getByText("Connected again.").waitFor();
});
