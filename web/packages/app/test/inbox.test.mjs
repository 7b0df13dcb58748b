import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { loader } from "./load.mjs";

let vite, r, d, keys, live, router, store, history, rules;
before(async () => {
  vite = await loader();
  r = await vite.load("inbox/reconcile.ts");
  d = await vite.load("inbox/drafts.ts");
  keys = await vite.load("inbox/shortcuts.tsx");
  live = await vite.load("live.ts");
  router = await vite.load("router.tsx");
  store = await vite.load("inbox/store.ts");
  history = await vite.load("pages/history.tsx");
  rules = await vite.load("pages/rules.tsx");
});
after(() => vite.close());

const reply = (...ids) => ({ badge: ids.length, approvals: ids.map((id) => ({ request_id: id, tool_name: "t", agent_label: "a", summary: id, created_at: id.charCodeAt(0) })), clarifications: [], elicitations: [] });
const none = () => false;
const ids = (view) => view.items.map((i) => i.request_id);

test("items stand oldest first, so that a new one moves nothing", () => {
  const view = r.reconcile(r.emptyView, { ...reply("c", "a"), clarifications: [{ request_id: "b", question: "?", agent_label: "", created_at: 98 }] }, new Set(), none).view;
  assert.deepEqual(ids(view), ["a", "b", "c"]);
});

test("the first snapshot announces nothing, later ones what is new", () => {
  const first = r.reconcile(r.emptyView, reply("a"), new Set(), none);
  assert.deepEqual(first.added, []);
  const second = r.reconcile(first.view, reply("a", "b"), new Set(), none);
  assert.deepEqual(second.added.map((i) => i.request_id), ["b"]);
});

test("fault_23_an_item_resolved_elsewhere_leaves_no_ghost", () => {
  const first = r.reconcile(r.emptyView, reply("a", "b"), new Set(), none);
  const second = r.reconcile(first.view, reply("b"), new Set(), none);
  assert.deepEqual(ids(second.view), ["b"]);
  assert.deepEqual(second.view.closed, []);
  assert.deepEqual(second.removed.map((i) => i.request_id), ["a"]);
});

test("an item resolved under one's hands stays as a closed card", () => {
  const first = r.reconcile(r.emptyView, reply("a", "b"), new Set(), none);
  const second = r.reconcile(first.view, reply("b"), new Set(), (id) => id === "a");
  assert.deepEqual(r.cards(second.view).map((c) => [c.item.request_id, c.closed !== undefined]), [["a", true], ["b", false]]);
  const third = r.reconcile(second.view, reply("b"), new Set(), none);
  assert.equal(third.view.closed.length, 1, "it stays until it is dismissed");
});

test("a snapshot taken before one's own answer does not bring the item back", () => {
  const view = r.reconcile(r.emptyView, reply("a", "b"), new Set(["a"]), none).view;
  assert.deepEqual(ids(view), ["b"]);
});

test("any order of snapshots keeps cards single and loses none that is worked on", () => {
  for (let seed = 1; seed <= 200; seed++) {
    let state = seed;
    const random = (n) => {
      state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
      return (state >> 8) % n;
    };
    let view = r.emptyView;
    const answered = new Set();
    const working = new Set();
    for (let step = 0; step < 40; step++) {
      const pending = "abcdef".split("").filter(() => random(2) === 0);
      if (random(4) === 0) working.add("abcdef"[random(6)]);
      if (random(6) === 0) answered.add("abcdef"[random(6)]);
      const before = view;
      view = r.reconcile(view, reply(...pending), answered, (id) => working.has(id)).view;
      const shown = r.cards(view).map((c) => c.item.request_id);
      assert.equal(new Set(shown).size, shown.length, `seed ${seed}: a card is shown twice`);
      assert.deepEqual(ids(view), pending.filter((id) => !answered.has(id)), `seed ${seed}: what is shown is what is pending`);
      for (const id of ids(before)) if (working.has(id)) assert.ok(shown.includes(id), `seed ${seed}: ${id} vanished under someone's hands`);
    }
  }
});

test("a draft is given back as text, secrets never", () => {
  d.setDraft("x", "reason", "because");
  d.setDraft("x", "password", "hunter2");
  d.markSecret("x", "password");
  assert.ok(d.hasDraft("x"));
  assert.equal(d.typedText("x"), "because");
  d.setDraft("x", "reason", "");
  assert.equal(d.typedText("x"), undefined);
  d.dropDraft("x");
  assert.ok(!d.hasDraft("x"));
});

test("what a conflict says of the standing outcome is understood", () => {
  assert.deepEqual(store.standing({ state: "resolved", outcome: { decision: "approved" }, resolved_by: "device:P" }), { state: "resolved", outcome: { decision: "approved" }, by: "device:P" });
  assert.equal(store.standing({ state: "expired" }).state, "expired");
  assert.deepEqual(store.standing({ standing: { action: "decline" }, state: "resolved" }).outcome, { action: "decline" });
});

test("single keys act, but not while typing and not with a modifier", () => {
  const key = (k, over = {}) => ({ key: k, ctrlKey: false, metaKey: false, altKey: false, ...over });
  assert.equal(keys.actOf(key("j"), false), "next");
  assert.equal(keys.actOf(key("?"), false), "help");
  assert.equal(keys.actOf(key("a"), true), undefined);
  assert.equal(keys.actOf(key("a", { ctrlKey: true }), false), undefined);
  assert.equal(keys.actOf(key("a", { repeat: true }), false), undefined);
});

test("waiting grows to half a minute and never falls to nothing", () => {
  assert.equal(live.backoff(0, () => 0.5), 1000);
  assert.equal(live.backoff(3, () => 0.5), 8000);
  assert.equal(live.backoff(50, () => 0.5), 30_000);
  assert.ok(live.backoff(0, () => 0) >= 750);
});

test("paths lead to pages", () => {
  assert.deepEqual(router.match("/"), { page: "inbox" });
  assert.deepEqual(router.match("/history/"), { page: "history" });
  assert.deepEqual(router.match("/plugins/mobile-connector"), { page: "plugin", id: "mobile-connector" });
  assert.deepEqual(router.match("/plugins/%E0%A4%A"), { page: "unknown" });
  assert.deepEqual(router.match("/nowhere"), { page: "unknown" });
});

test("a fresh page of history joins what was loaded without doubles", () => {
  const entry = (id) => ({ request_id: id });
  assert.deepEqual(history.merge([entry("c"), entry("b")], [entry("b"), entry("a")]).map((e) => e.request_id), ["c", "b", "a"]);
});

test("a span is offered in its largest whole unit", () => {
  assert.equal(rules.unitOf(86_400), "days");
  assert.equal(rules.unitOf(5_400), "minutes");
  assert.equal(rules.unitOf(7_200), "hours");
});
