// Display blocks (v1) as rows to show. Whatever does not fit the description is shown as JSON; nothing is dropped.
import { isRecord } from "../api";
import { t } from "../strings";

export interface Row {
  label: string;
  /** The value as text; JSON values are kept as they are in `json`. */
  text: string;
  json?: unknown;
  type: string;
}

const asText = (v: unknown) => (typeof v === "string" ? v : v === undefined ? "" : JSON.stringify(v));

export interface Rows {
  rows: Row[];
  /** What the blocks say in one line, where that differs from the item's own summary. */
  summary?: string;
  /** True where the version is not ours and the whole is shown as it came. */
  foreign: boolean;
}

export function rowsOf(blocks: unknown): Rows {
  if (blocks === undefined || blocks === null) return { rows: [], foreign: false };
  // A bare list of blocks is as clear as one in its wrapper.
  const list = Array.isArray(blocks) ? blocks : isRecord(blocks) && blocks["v"] === 1 && Array.isArray(blocks["blocks"]) ? blocks["blocks"] : undefined;
  if (!list) return { rows: [{ label: "", text: "", json: blocks, type: "json" }], foreign: true };
  const rows = list.map((b: unknown): Row => {
    if (!isRecord(b) || !("value" in b)) return { label: "", text: "", json: b, type: "json" };
    const label = asText(b["label"] ?? b["key"]);
    const type = typeof b["value_type"] === "string" ? b["value_type"] : typeof b["value"] === "object" && b["value"] !== null ? "json" : "string";
    const value = b["value"];
    if (type === "json") {
      if (typeof value !== "string") return { label, text: "", json: value, type };
      try {
        return { label, text: value, json: JSON.parse(value), type };
      } catch {
        return { label, text: value, type: "code" };
      }
    }
    return { label, text: asText(value), type };
  });
  const summary = isRecord(blocks) && typeof blocks["summary"] === "string" && blocks["summary"] !== "" ? blocks["summary"] : undefined;
  return { rows, summary, foreign: false };
}

/** Types whose value needs the whole width of the card. */
export function isWide(row: Row): boolean {
  return ["diff", "command", "code", "json", "markdown"].includes(row.type) || row.text.length > 80 || row.text.includes("\n");
}

export interface UrlParts {
  before: string;
  host: string;
  after: string;
  punycode: boolean;
  /** Whether it is an ordinary web address. */
  web: boolean;
}

/** An address with its host set apart, so that `https://bank.example@evil.example/` shows where it leads. */
export function urlParts(text: string): UrlParts | undefined {
  let url: URL;
  try {
    url = new URL(text.trim());
  } catch {
    return undefined;
  }
  if (url.host === "") return undefined;
  const href = url.href;
  const start = href.indexOf("//") + 2;
  const authorityEnd = (() => {
    const i = href.slice(start).search(/[/?#]/);
    return i < 0 ? href.length : start + i;
  })();
  const at = href.slice(start, authorityEnd).lastIndexOf("@");
  const hostStart = start + at + 1;
  return {
    before: href.slice(0, hostStart),
    host: href.slice(hostStart, authorityEnd),
    after: href.slice(authorityEnd),
    punycode: url.hostname.split(".").some((label) => label.startsWith("xn--")),
    web: url.protocol === "https:" || url.protocol === "http:",
  };
}

/** A moment as text for people, beside the value as it came. */
export function momentOf(text: string): number | undefined {
  const n = /^\d{12,14}$/.test(text) ? Number(text) : Date.parse(text);
  return Number.isNaN(n) ? undefined : n;
}

export function booleanWord(text: string): string {
  return text === "true" ? t.blocks.yes : text === "false" ? t.blocks.no : text;
}
