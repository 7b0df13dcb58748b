// Forms from a flat JSON schema: the fields of an MCP elicitation and the settings of a plugin. Pure.
import { t } from "../strings";

export type FieldKind = "text" | "number" | "boolean" | "choice" | "choices" | "lines" | "json";

export interface Option {
  value: unknown;
  label: string;
}

export interface Field {
  name: string;
  label: string;
  description?: string;
  kind: FieldKind;
  /** For text: a JSON schema format, or empty. */
  format: string;
  integer: boolean;
  options: Option[];
  required: boolean;
  nullable: boolean;
  masked: boolean;
  fallback?: unknown;
  min?: number;
  max?: number;
  /** Whether `min` (or `max`) itself is excluded. */
  above?: number;
  below?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
}

export type Value = string | boolean | string[];
export type Values = Record<string, Value>;
export type Errors = Record<string, string>;

type Schema = Record<string, unknown>;

function isSchema(v: unknown): v is Schema {
  return typeof v === "object" && v !== null && !Array.isArray(v);
}

const num = (v: unknown) => (typeof v === "number" ? v : undefined);
const str = (v: unknown) => (typeof v === "string" && v !== "" ? v : undefined);

/** `relay_url` → "Relay url", for properties without a title. */
export function humanise(name: string): string {
  const words = name.replace(/([a-z0-9])([A-Z])/g, "$1 $2").replace(/[_\-.]+/g, " ").trim().toLowerCase();
  return words === "" ? name : words.charAt(0).toUpperCase() + words.slice(1);
}

/** Follows local references and folds "this or null" into the thing itself. */
function resolve(root: Schema, raw: unknown, depth = 0): { schema: Schema; nullable: boolean } {
  let schema: Schema = isSchema(raw) ? raw : {};
  let nullable = false;
  if (depth > 8) return { schema, nullable };
  const ref = schema["$ref"];
  if (typeof ref === "string" && ref.startsWith("#/")) {
    let target: unknown = root;
    for (const part of ref.slice(2).split("/")) target = isSchema(target) ? target[part.replace(/~1/g, "/").replace(/~0/g, "~")] : undefined;
    const { $ref: _, ...own } = schema;
    const inner = resolve(root, target, depth + 1);
    return { schema: { ...inner.schema, ...own }, nullable: inner.nullable };
  }
  const all = schema["allOf"];
  if (Array.isArray(all) && all.length === 1) {
    const { allOf: _, ...own } = schema;
    const inner = resolve(root, all[0], depth + 1);
    return { schema: { ...inner.schema, ...own }, nullable: inner.nullable };
  }
  const type = schema["type"];
  if (Array.isArray(type)) {
    const rest = type.filter((x) => x !== "null");
    nullable = rest.length < type.length;
    schema = { ...schema, type: rest.length === 1 ? rest[0] : undefined };
  }
  for (const key of ["anyOf", "oneOf"] as const) {
    const branches = schema[key];
    if (!Array.isArray(branches)) continue;
    const rest = branches.filter((b) => !(isSchema(b) && b["type"] === "null"));
    if (rest.length === branches.length) continue;
    nullable = true;
    const { [key]: _, ...own } = schema;
    if (rest.length === 1) {
      const inner = resolve(root, rest[0], depth + 1);
      return { schema: { ...inner.schema, ...own }, nullable: true };
    }
    schema = { ...own, [key]: rest };
  }
  return { schema, nullable };
}

function optionsOf(schema: Schema): Option[] | undefined {
  const list = schema["enum"];
  if (Array.isArray(list)) {
    const names = Array.isArray(schema["enumNames"]) ? schema["enumNames"] : [];
    return list.filter((v) => v !== null).map((value, i) => ({ value, label: str(names[i]) ?? String(value) }));
  }
  const branches = schema["oneOf"] ?? schema["anyOf"];
  if (Array.isArray(branches) && branches.length > 0 && branches.every((b) => isSchema(b) && ("const" in b || (Array.isArray(b["enum"]) && b["enum"].length === 1)))) {
    return branches.map((b: Schema) => {
      const value = "const" in b ? b["const"] : (b["enum"] as unknown[])[0];
      return { value, label: str(b["title"]) ?? String(value) };
    });
  }
  return undefined;
}

export function fieldOf(root: Schema, name: string, raw: unknown, required: boolean): Field {
  const { schema, nullable } = resolve(root, raw);
  const format = str(schema["format"]) ?? "";
  const options = optionsOf(schema);
  const field: Field = {
    name,
    label: str(schema["title"]) ?? humanise(name),
    description: str(schema["description"]),
    kind: "json",
    format,
    integer: schema["type"] === "integer",
    options: options ?? [],
    required,
    nullable,
    masked: format === "password" || schema["writeOnly"] === true,
    fallback: schema["default"],
    min: num(schema["minimum"]),
    max: num(schema["maximum"]),
    above: num(schema["exclusiveMinimum"]),
    below: num(schema["exclusiveMaximum"]),
    minLength: num(schema["minLength"]),
    maxLength: num(schema["maxLength"]),
    pattern: str(schema["pattern"]),
  };
  if (options) field.kind = "choice";
  else if (schema["type"] === "boolean") field.kind = "boolean";
  else if (schema["type"] === "integer" || schema["type"] === "number") field.kind = "number";
  else if (schema["type"] === "string") field.kind = "text";
  else if (schema["type"] === "array") {
    const items = resolve(root, schema["items"]).schema;
    const choices = optionsOf(items);
    field.minLength = num(schema["minItems"]);
    field.maxLength = num(schema["maxItems"]);
    if (choices) {
      field.kind = "choices";
      field.options = choices;
    } else if (items["type"] === "string") field.kind = "lines";
  }
  return field;
}

export function fieldsOf(schema: unknown): Field[] {
  if (!isSchema(schema) || !isSchema(schema["properties"])) return [];
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  return Object.entries(schema["properties"]).map(([name, raw]) => fieldOf(schema, name, raw, required.includes(name)));
}

/** What the form starts with: what is set, else the default, else nothing. */
export function initialValues(fields: Field[], set: Record<string, unknown> = {}): Values {
  const values: Values = {};
  for (const f of fields) {
    const given = set[f.name] ?? f.fallback;
    switch (f.kind) {
      case "boolean":
        values[f.name] = given === true;
        break;
      case "choice": {
        const i = f.options.findIndex((o) => o.value === given);
        values[f.name] = i < 0 ? "" : String(i);
        break;
      }
      case "choices":
        values[f.name] = Array.isArray(given) ? given.map((g) => String(f.options.findIndex((o) => o.value === g))).filter((i) => i !== "-1") : [];
        break;
      case "lines":
        values[f.name] = Array.isArray(given) ? given.join("\n") : "";
        break;
      case "json":
        values[f.name] = given === undefined ? "" : JSON.stringify(given, null, 2);
        break;
      case "text":
        values[f.name] = typeof given === "string" ? (f.format === "date-time" ? toLocalInput(given) : given) : given === undefined || given === null ? "" : String(given);
        break;
      case "number":
        values[f.name] = typeof given === "number" ? String(given) : "";
        break;
    }
  }
  return values;
}

/** An instant as `datetime-local` wants it; text that is no instant stays as it is. */
export function toLocalInput(iso: string): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return iso;
  const pad = (n: number) => String(n).padStart(2, "0");
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}T${pad(at.getHours())}:${pad(at.getMinutes())}`;
}

const EMAIL = /^[^\s@]+@[^\s@]+\.[^\s@.]+$/;

function checkText(f: Field, text: string): string | undefined {
  const length = [...text].length;
  if (f.minLength !== undefined && length < f.minLength) return t.form.tooShort(f.minLength);
  if (f.maxLength !== undefined && length > f.maxLength) return t.form.tooLong(f.maxLength);
  if (f.format === "email" && !EMAIL.test(text)) return t.form.email;
  if ((f.format === "uri" || f.format === "url") && !URL.canParse(text)) return t.form.uri;
  if (f.format === "date" && !(/^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text)))) return t.form.date;
  if (f.format === "date-time" && Number.isNaN(Date.parse(text))) return t.form.dateTime;
  if (f.pattern !== undefined) {
    try {
      if (!new RegExp(f.pattern, "u").test(text)) return t.form.pattern;
    } catch {
      // A pattern that is no expression binds nobody; the host has the last word anyway.
    }
  }
  return undefined;
}

function readNumber(f: Field, text: string): { value?: number; error?: string } {
  const plain = text.trim().replace(",", ".");
  const value = plain === "" ? NaN : Number(plain);
  if (!Number.isFinite(value)) return { error: t.form.number };
  if (f.integer && !Number.isSafeInteger(value)) return { error: t.form.integer };
  if (f.min !== undefined && value < f.min) return { error: t.form.atLeast(f.min) };
  if (f.max !== undefined && value > f.max) return { error: t.form.atMost(f.max) };
  if (f.above !== undefined && value <= f.above) return { error: t.form.above(f.above) };
  if (f.below !== undefined && value >= f.below) return { error: t.form.below(f.below) };
  return { value };
}

function readList(f: Field, list: unknown[]): { value?: unknown[]; error?: string } {
  if (f.minLength !== undefined && list.length < f.minLength) return { error: t.form.fewest(f.minLength) };
  if (f.maxLength !== undefined && list.length > f.maxLength) return { error: t.form.most(f.maxLength) };
  return { value: list };
}

/** Reads the form: the object to send, and what is wrong, field by field. What was left empty and may be is left out. */
export function readValues(fields: Field[], values: Values): { content: Record<string, unknown>; errors: Errors } {
  const content: Record<string, unknown> = {};
  const errors: Errors = {};
  const put = (f: Field, read: { value?: unknown; error?: string }) => {
    if (read.error !== undefined) errors[f.name] = read.error;
    else content[f.name] = read.value;
  };
  for (const f of fields) {
    const raw = values[f.name];
    if (f.kind === "boolean") {
      content[f.name] = raw === true;
      continue;
    }
    if (f.kind === "choices") {
      const picked = (Array.isArray(raw) ? raw : []).map((i) => f.options[Number(i)]?.value).filter((v) => v !== undefined);
      if (picked.length === 0 && !f.required && !f.minLength) content[f.name] = [];
      else if (picked.length === 0 && f.required) errors[f.name] = t.form.pickSome;
      else put(f, readList(f, picked));
      continue;
    }
    const text = typeof raw === "string" ? raw : "";
    if (text.trim() === "") {
      // An optional text whose default is not empty must be sent empty, or the default would come back.
      if (f.required && !(f.kind === "text" && f.fallback === "")) errors[f.name] = f.kind === "choice" ? t.form.pickOne : t.form.required;
      else if (f.nullable && f.fallback !== undefined && f.fallback !== null) content[f.name] = null;
      else if (f.kind === "text" && (f.required || str(f.fallback))) content[f.name] = "";
      continue;
    }
    switch (f.kind) {
      case "number":
        put(f, readNumber(f, text));
        break;
      case "choice": {
        const option = f.options[Number(text)];
        put(f, option ? { value: option.value } : { error: t.form.pickOne });
        break;
      }
      case "lines":
        put(f, readList(f, text.split("\n").map((l) => l.trim()).filter((l) => l !== "")));
        break;
      case "json":
        try {
          content[f.name] = JSON.parse(text);
        } catch {
          errors[f.name] = t.form.json;
        }
        break;
      case "text": {
        const error = checkText(f, text);
        put(f, error !== undefined ? { error } : { value: f.format === "date-time" ? new Date(text).toISOString() : text });
        break;
      }
    }
  }
  return { content, errors };
}
