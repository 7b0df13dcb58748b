// Errors of a form as the host sends them, brought to the fields they speak of.
import type { FieldError } from "../types";
import type { Errors } from "./schema";

/** Server-side names of fields: `config.relay_url`, `/relay_url` and `relay_url` are the same. */
export function fieldName(raw: string): string {
  return raw.replace(/^\/+/, "").replace(/^(?:config|content)[./]/, "");
}

/** Sorts errors by field. What speaks of no field of the form is left for the form as a whole. */
export function spread(errors: FieldError[], names: string[]): { fields: Errors; rest: string[] } {
  const fields: Errors = {};
  const rest: string[] = [];
  for (const error of errors) {
    const name = fieldName(error.field);
    const message = error.message.trim();
    if (message === "") continue;
    if (names.includes(name)) fields[name] = fields[name] ? `${fields[name]} ${message}` : message;
    else rest.push(message);
  }
  return { fields, rest };
}
