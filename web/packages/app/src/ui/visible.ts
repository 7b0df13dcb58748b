// Characters that one cannot see, or that reorder what one sees, must not hide anything from whoever approves it.

export type Segment = { text: string } | { code: string };

// Controls other than tab and line feed, direction marks and overrides, zero-width and filler characters, tags.
const ALWAYS = "\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u115f\\u1160\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufeff\\uffa0\\u{e0000}-\\u{e007f}";
// Joiners belong in words of some scripts and in emoji, but not in commands.
const JOINERS = "\\u200c\\u200d";

const inText = new RegExp(`[${ALWAYS}]|\\r(?!\\n)`, "gu");
const inCode = new RegExp(`[${ALWAYS}${JOINERS}]|\\r(?!\\n)`, "gu");

/** Splits text into what can be shown as it is and the code points that must be named instead. */
export function visible(text: string, code: boolean): Segment[] {
  const segments: Segment[] = [];
  let from = 0;
  for (const match of text.matchAll(code ? inCode : inText)) {
    if (match.index > from) segments.push({ text: text.slice(from, match.index) });
    segments.push({ code: `U+${match[0].codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}` });
    from = match.index + match[0].length;
  }
  if (from < text.length) segments.push({ text: text.slice(from) });
  return segments;
}

export type DiffLine = { kind: "add" | "del" | "hunk" | "meta" | "same"; text: string };

/** What each line of a unified diff is. Within a hunk `---` and `+++` are ordinary lines that begin with a sign. */
export function diffLines(diff: string): DiffLine[] {
  const lines = diff.split("\n");
  if (lines.at(-1) === "") lines.pop();
  let oldLeft = 0;
  let newLeft = 0;
  return lines.map((text): DiffLine => {
    const hunk = /^@@+ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/.exec(text);
    if (hunk) {
      oldLeft = hunk[1] === undefined ? 1 : Number(hunk[1]);
      newLeft = hunk[2] === undefined ? 1 : Number(hunk[2]);
      return { kind: "hunk", text };
    }
    if (text.startsWith("@@")) return { kind: "hunk", text };
    const inside = oldLeft > 0 || newLeft > 0;
    if (!inside && (/^(---|\+\+\+)( |\t|$)/.test(text) || /^(diff |index |new file|deleted file|rename |similarity |old mode|new mode|\\ )/.test(text))) {
      return { kind: "meta", text };
    }
    if (text.startsWith("+")) {
      newLeft--;
      return { kind: "add", text };
    }
    if (text.startsWith("-")) {
      oldLeft--;
      return { kind: "del", text };
    }
    if (text.startsWith("\\ ")) return { kind: "meta", text };
    oldLeft--;
    newLeft--;
    return { kind: "same", text };
  });
}

export type JsonToken = { kind: "key" | "string" | "number" | "word" | "plain"; text: string };

/**
 * JSON for reading: indented, and with a real line break after each `↵` in a string, so that a file's content can be
 * read as lines. Nothing is left out.
 */
export function jsonTokens(value: unknown): JsonToken[] {
  const out: JsonToken[] = [];
  const put = (kind: JsonToken["kind"], text: string) => {
    const last = out.at(-1);
    if (kind === "plain" && last?.kind === "plain") last.text += text;
    else out.push({ kind, text });
  };
  const walk = (v: unknown, indent: string): void => {
    if (typeof v === "string") {
      put("string", JSON.stringify(v).replace(/\\\\|\\n/g, (m) => (m === "\\n" ? `↵\n${indent}` : m)));
    } else if (typeof v === "number") put("number", String(v));
    else if (v === null || typeof v !== "object") put("word", String(v));
    else if (Array.isArray(v)) {
      if (v.length === 0) return put("plain", "[]");
      put("plain", "[\n");
      v.forEach((x, i) => {
        put("plain", `${indent}  `);
        walk(x, `${indent}  `);
        put("plain", i + 1 < v.length ? ",\n" : "\n");
      });
      put("plain", `${indent}]`);
    } else {
      const entries = Object.entries(v);
      if (entries.length === 0) return put("plain", "{}");
      put("plain", "{\n");
      entries.forEach(([k, x], i) => {
        put("plain", `${indent}  `);
        put("key", JSON.stringify(k));
        put("plain", ": ");
        walk(x, `${indent}  `);
        put("plain", i + 1 < entries.length ? ",\n" : "\n");
      });
      put("plain", `${indent}}`);
    }
  };
  walk(value, "");
  return out;
}
