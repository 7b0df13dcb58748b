// What an elicitation asks to be filled in.
import { fieldOf, fieldsOf, humanise, type Field } from "../forms/schema";
import type { Elicitation } from "../types";

/** All fields of the prompt, every one of them; a prompt of one field needs no schema. */
export function promptFields(item: Elicitation): Field[] {
  if (item.is_confirmation || item.mode === "url") return [];
  const fields = fieldsOf(item.schema);
  if (fields.length === 0 && item.field_name) {
    fields.push(fieldOf({}, item.field_name, { type: "string", title: humanise(item.field_name) }, true));
  } else if (item.field_name && !fields.some((f) => f.name === item.field_name)) {
    // The schema speaks of other fields than the item does: ask for both rather than for less.
    fields.unshift(fieldOf({}, item.field_name, { type: "string", title: humanise(item.field_name) }, true));
  }
  // `sensitive` is said of the whole prompt, so every text in it is masked.
  return item.sensitive ? fields.map((f) => (f.kind === "text" ? { ...f, masked: true } : f)) : fields;
}
