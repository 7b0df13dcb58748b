import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { loader } from "./load.mjs";

let vite, s, prompt, errs;
before(async () => {
  vite = await loader();
  s = await vite.load("forms/schema.ts");
  errs = await vite.load("forms/errors.ts");
  prompt = await vite.load("inbox/prompt.ts");
});
after(() => vite.close());

const schema = {
  type: "object",
  required: ["name", "size", "tags"],
  properties: {
    name: { type: "string", minLength: 2, maxLength: 5 },
    mail: { type: "string", format: "email" },
    size: { type: "integer", minimum: 1, maximum: 9, default: 3 },
    rate: { type: "number", exclusiveMinimum: 0 },
    on: { type: "boolean", default: true },
    colour: { enum: ["red", "blue"], enumNames: ["Rot", "Blau"] },
    level: { oneOf: [{ const: 1, title: "Low" }, { const: 2, title: "High" }] },
    tags: { type: "array", minItems: 1, maxItems: 2, items: { anyOf: [{ const: "a", title: "A" }, { const: "b", title: "B" }, { const: "c", title: "C" }] } },
    hosts: { type: ["array", "null"], items: { type: "string" } },
    free: {},
  },
};

const filled = (over) => ({ ...s.initialValues(s.fieldsOf(schema)), ...over });
const read = (over) => s.readValues(s.fieldsOf(schema), filled(over));

test("every property becomes a field of its kind", () => {
  const kinds = Object.fromEntries(s.fieldsOf(schema).map((f) => [f.name, f.kind]));
  assert.deepEqual(kinds, { name: "text", mail: "text", size: "number", rate: "number", on: "boolean", colour: "choice", level: "choice", tags: "choices", hosts: "lines", free: "json" });
});

test("defaults fill the form and what is set comes before them", () => {
  const fields = s.fieldsOf(schema);
  assert.equal(s.initialValues(fields).size, "3");
  assert.equal(s.initialValues(fields).on, true);
  assert.equal(s.initialValues(fields, { size: 7, on: false }).size, "7");
  assert.equal(s.initialValues(fields, { on: false }).on, false);
  assert.equal(s.initialValues(fields, { level: 2 }).level, "1");
});

test("a filled form gives typed values", () => {
  const { content, errors } = read({ name: "Ada", size: "4", rate: "0,5", colour: "1", level: "0", tags: ["2", "0"], hosts: "one\n\n two ", free: '{"x":1}', mail: "a@b.example" });
  assert.deepEqual(errors, {});
  assert.deepEqual(content, { name: "Ada", mail: "a@b.example", size: 4, rate: 0.5, on: true, colour: "blue", level: 1, tags: ["c", "a"], hosts: ["one", "two"], free: { x: 1 } });
});

test("each wrong field gets an error of its own", () => {
  const { errors } = read({ name: "A", mail: "nobody", size: "2.5", rate: "0", tags: ["0", "1", "2"], free: "{" });
  assert.deepEqual(Object.keys(errors).sort(), ["free", "mail", "name", "rate", "size", "tags"]);
  assert.deepEqual(Object.keys(read({ name: "", size: "", tags: [] }).errors).sort(), ["name", "size", "tags"]);
  for (const size of ["0", "10", "1e400", "NaN", "0x", "--1"]) assert.ok(read({ name: "Ada", tags: ["0"], size }).errors.size, size);
});

test("what is optional and empty is left out", () => {
  const { content } = read({ name: "Ada", tags: ["0"] });
  for (const name of ["mail", "rate", "colour", "level", "hosts", "free"]) assert.ok(!(name in content), name);
});

test("an emptied text whose default is not empty is sent empty", () => {
  const fields = s.fieldsOf({ properties: { a: { type: "string", default: "x" }, b: { type: "string", default: "" } } });
  assert.deepEqual(s.readValues(fields, { a: "", b: "" }).content, { a: "" });
});

test("references and null alternatives are followed", () => {
  const fields = s.fieldsOf({
    $defs: { Mode: { enum: ["fast", "safe"] } },
    properties: { mode: { allOf: [{ $ref: "#/$defs/Mode" }], title: "Mode" }, port: { anyOf: [{ type: "integer" }, { type: "null" }] }, loop: { $ref: "#/properties/loop" } },
  });
  assert.equal(fields[0].kind, "choice");
  assert.equal(fields[0].label, "Mode");
  assert.deepEqual([fields[1].kind, fields[1].nullable], ["number", true]);
  assert.equal(fields[2].kind, "json");
});

test("dates and moments are checked and moments become instants", () => {
  const fields = s.fieldsOf({ properties: { day: { type: "string", format: "date" }, at: { type: "string", format: "date-time" } } });
  assert.ok(s.readValues(fields, { day: "2026-13-40", at: "soon" }).errors.day);
  const { content } = s.readValues(fields, { day: "2026-12-01", at: "2026-12-01T09:30" });
  assert.equal(content.day, "2026-12-01");
  assert.equal(content.at, new Date("2026-12-01T09:30").toISOString());
});

test("errors reach the fields they speak of", () => {
  assert.deepEqual(errs.spread([{ field: "config.port", message: "Too low." }, { field: "", message: "The disk is full." }], ["port"]), { fields: { port: "Too low." }, rest: ["The disk is full."] });
  assert.deepEqual(errs.spread([{ field: "x", message: "No." }], []), { fields: {}, rest: ["No."] });
});

test("a schema of any shape never throws", () => {
  for (const bad of [undefined, null, 1, "x", [], {}, { properties: [] }, { properties: { a: null, b: { type: "array" }, c: { enum: [] }, d: { oneOf: "x" } }, required: "a" }]) {
    const fields = s.fieldsOf(bad);
    s.readValues(fields, s.initialValues(fields));
  }
});

test("fault_22_a_prompt_shows_every_field_and_masks_what_is_sensitive", () => {
  const item = { kind: "elicitation", request_id: "1", server_name: "x", message: "m", field_name: null, sensitive: true, is_confirmation: false, created_at: 0, schema: { properties: { user: { type: "string" }, pass: { type: "string" }, keep: { type: "boolean" } } } };
  const fields = prompt.promptFields(item);
  assert.deepEqual(fields.map((f) => f.name), ["user", "pass", "keep"]);
  assert.ok(fields.filter((f) => f.kind === "text").every((f) => f.masked));
  const one = prompt.promptFields({ ...item, schema: undefined, field_name: "password" });
  assert.deepEqual(one.map((f) => [f.name, f.masked, f.required]), [["password", true, true]]);
  const both = prompt.promptFields({ ...item, field_name: "otp" });
  assert.deepEqual(both.map((f) => f.name), ["otp", "user", "pass", "keep"]);
  assert.deepEqual(prompt.promptFields({ ...item, is_confirmation: true }), []);
});
