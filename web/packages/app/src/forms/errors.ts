// Errors of a form as the host sends them, brought to the fields they speak of.
import type { FieldError } from "../types";
import type { Errors } from "./schema";

/** Server-side names of fields: `config.relay_url`, `/relay_url` and `relay_url` are the same. */
export function fieldName(raw: string): string {
  return raw.replace(/^\/+/, "").replace(/^(?:config|content)[./]/, "");
}

const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/**
 * Sorts errors by field. A plugin that checks its settings itself tells all faults in one text, `name: sentence` after
 * `name: sentence`; those are taken apart. What speaks of no field is left for the form as a whole.
 */
export function spread(errors: FieldError[], names: string[]): { fields: Errors; rest: string[] } {
  const fields: Errors = {};
  const rest: string[] = [];
  const add = (name: string, message: string) => {
    const text = message.trim();
    if (text !== "") fields[name] = fields[name] ? `${fields[name]} ${text}` : text;
  };
  const mark = names.length > 0 ? new RegExp(`(?:^|\\s)(${names.map(escaped).join("|")}): `, "g") : undefined;
  for (const error of errors) {
    const name = fieldName(error.field);
    if (names.includes(name)) {
      add(name, error.message);
      continue;
    }
    const marks = mark ? [...error.message.matchAll(mark)] : [];
    const before = error.message.slice(0, marks[0]?.index ?? error.message.length).trim();
    if (before !== "") rest.push(before);
    marks.forEach((m, i) => add(m[1] ?? "", error.message.slice(m.index + m[0].length, marks[i + 1]?.index)));
  }
  return { fields, rest };
}
