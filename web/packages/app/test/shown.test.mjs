import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { loader } from "./load.mjs";

let vite, v, b;
before(async () => {
  vite = await loader();
  v = await vite.load("ui/visible.ts");
  b = await vite.load("ui/blockrows.ts");
});
after(() => vite.close());

const joined = (segments) => segments.map((s) => ("text" in s ? s.text : String.fromCodePoint(parseInt(s.code.slice(2), 16)))).join("");

test("fault_25_a_long_command_is_shown_whole", () => {
  const command = `${"echo a very long command with many words && ".repeat(4000)}rm -rf /`;
  assert.equal(joined(v.visible(command, true)), command);
  const { rows } = b.rowsOf({ v: 1, blocks: [{ type: "block", label: "Command", value: command, value_type: "command" }] });
  assert.equal(rows[0].text, command);
  const shown = v.jsonTokens({ command }).map((x) => x.text).join("");
  assert.ok(shown.includes("rm -rf /"));
  assert.deepEqual(JSON.parse(shown), { command });
});

test("characters that hide or reorder text are named", () => {
  const trick = "rm \u202e txt.\u200b\u0007\u{e0041}";
  assert.deepEqual(v.visible(trick, true).filter((s) => "code" in s).map((s) => s.code), ["U+202E", "U+200B", "U+0007", "U+E0041"]);
  assert.equal(joined(v.visible(trick, true)), trick);
  assert.deepEqual(v.visible("tab\tand\nline\r\nend", true), [{ text: "tab\tand\nline\r\nend" }]);
  assert.equal(v.visible("clear\rscreen", true)[1].code, "U+000D");
});

test("joiners stay in words and are named in commands", () => {
  assert.deepEqual(v.visible("می\u200cخواهم", false), [{ text: "می\u200cخواهم" }]);
  assert.equal(v.visible("a\u200db", true)[1].code, "U+200D");
});

test("a diff's lines are told apart, also lines that begin with dashes", () => {
  const kinds = v.diffLines("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- old rule\n+++ new rule\n same\n\\ No newline at end of file\n").map((l) => l.kind);
  assert.deepEqual(kinds, ["meta", "meta", "hunk", "del", "add", "same", "meta"]);
  assert.equal(v.diffLines("+a\n-b").map((l) => l.text).join("\n"), "+a\n-b");
});

test("strings of several lines are shown as lines and a backslash stays one", () => {
  const text = v.jsonTokens({ a: "x\ny", b: "c:\\new" }).map((t) => t.text).join("");
  assert.ok(text.includes('"x↵\n  y"'));
  assert.ok(text.includes('"c:\\\\new"'));
});

test("no block is dropped, whatever it looks like", () => {
  const blocks = [{ type: "key_value", key: "k", value: 1, value_type: "number" }, { type: "mystery" }, "text", null, { type: "field", label: "l", value: { a: 1 } }, { type: "block", label: "j", value: "{bad", value_type: "json" }];
  const { rows } = b.rowsOf({ v: 1, summary: "s", blocks });
  assert.equal(rows.length, blocks.length);
  assert.deepEqual(rows[4].json, { a: 1 });
  assert.equal(rows[5].text, "{bad");
  const foreign = b.rowsOf({ v: 2, blocks: [] });
  assert.ok(foreign.foreign);
  assert.equal(foreign.rows.length, 1);
});

test("an address shows the host it leads to", () => {
  const parts = b.urlParts("https://bank.example@evil.example:8443/login?x=1#y");
  assert.equal(parts.host, "evil.example:8443");
  assert.equal(parts.before + parts.host + parts.after, "https://bank.example@evil.example:8443/login?x=1#y");
  assert.ok(b.urlParts("https://bücher.example/").punycode);
  assert.equal(b.urlParts("javascript:alert(1)"), undefined);
  assert.equal(b.urlParts("ftp://files.example/").web, false);
  assert.equal(b.urlParts("not an address"), undefined);
});
