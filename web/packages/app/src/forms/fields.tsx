// One field of a generated form, with its label, help and error tied to it.
import { useId, useState } from "preact/hooks";
import { Eye } from "../icons";
import { t } from "../strings";
import type { Field, Value } from "./schema";

interface Props {
  field: Field;
  value: Value;
  error?: string;
  disabled?: boolean;
  onInput: (value: Value) => void;
}

function inputType(f: Field): string {
  switch (f.format) {
    case "email":
      return "email";
    case "uri":
    case "url":
      return "url";
    case "date":
      return "date";
    case "date-time":
      return "datetime-local";
    default:
      return "text";
  }
}

function defaultText(f: Field): string | undefined {
  const d = f.fallback;
  if (d === undefined || d === null || d === "" || f.masked) return undefined;
  if (f.kind === "boolean" || f.kind === "choices") return undefined;
  if (f.kind === "choice") return f.options.find((o) => o.value === d)?.label;
  return typeof d === "object" ? undefined : String(d);
}

/** The hint below a field: what the schema says of it beside its description. */
function facts(f: Field): string {
  const parts: string[] = [];
  if (f.kind === "lines") parts.push(t.form.linesHelp);
  if (f.kind === "json") parts.push(t.form.jsonHelp);
  if (f.kind === "number" && f.min !== undefined && f.max !== undefined) parts.push(t.form.range(f.min, f.max));
  const d = defaultText(f);
  if (d !== undefined) parts.push(t.form.defaultIs(d));
  return parts.join(" ");
}

export function FieldInput(props: Props) {
  const { field: f, value, error, disabled, onInput } = props;
  const id = useId();
  const [shown, setShown] = useState(false);
  const help = [f.description, facts(f)].filter((x) => x).join(" ");
  const describedBy = [help ? `${id}-help` : "", error ? `${id}-error` : ""].filter((x) => x).join(" ") || undefined;
  const common = { id, disabled, "aria-describedby": describedBy, "aria-invalid": error ? true : undefined, "aria-required": f.required && f.kind !== "boolean" ? true : undefined } as const;
  const text = typeof value === "string" ? value : "";
  const label = (
    <>
      {f.label}
      {!f.required && f.kind !== "boolean" && f.fallback === undefined && <span class="optional"> ({t.form.optional})</span>}
    </>
  );
  const foot = (
    <>
      {help && (
        <p class="hint" id={`${id}-help`}>
          {help}
        </p>
      )}
      {error && (
        <p class="field-error" id={`${id}-error`}>
          {error}
        </p>
      )}
    </>
  );

  if (f.kind === "boolean") {
    return (
      <div class="field">
        <label class="check">
          <input type="checkbox" {...common} checked={value === true} onChange={(e) => onInput(e.currentTarget.checked)} />
          <span>{label}</span>
        </label>
        {foot}
      </div>
    );
  }

  const radios = f.kind === "choice" && f.options.length <= 4;
  if (f.kind === "choices" || radios) {
    const picked = Array.isArray(value) ? value : [text];
    return (
      <fieldset class="field" aria-describedby={describedBy} disabled={disabled}>
        <legend>{label}</legend>
        {f.options.map((o, i) => {
          const key = String(i);
          return (
            <label class="check" key={key}>
              <input
                type={radios ? "radio" : "checkbox"}
                name={id}
                checked={picked.includes(key)}
                aria-invalid={error ? true : undefined}
                onChange={(e) => {
                  if (radios) onInput(key);
                  else onInput(e.currentTarget.checked ? [...picked.filter((p) => p !== key), key] : picked.filter((p) => p !== key));
                }}
              />
              <span>{o.label}</span>
            </label>
          );
        })}
        {radios && !f.required && (
          <label class="check">
            <input type="radio" name={id} checked={text === ""} onChange={() => onInput("")} />
            <span>{t.form.noChoice}</span>
          </label>
        )}
        {foot}
      </fieldset>
    );
  }

  let control;
  if (f.kind === "choice") {
    control = (
      <select {...common} value={text} onChange={(e) => onInput(e.currentTarget.value)}>
        <option value="">{f.required ? t.form.choose : t.form.noChoice}</option>
        {f.options.map((o, i) => (
          <option key={i} value={String(i)}>
            {o.label}
          </option>
        ))}
      </select>
    );
  } else if (f.kind === "lines" || f.kind === "json") {
    control = <textarea {...common} rows={4} class={f.kind === "json" ? "mono-input" : undefined} value={text} spellcheck={false} onInput={(e) => onInput(e.currentTarget.value)} />;
  } else if (f.masked) {
    control = (
      <div class="with-button">
        <input {...common} type={(shown ? "text" : "password") as "password"} value={text} autocomplete="off" autocapitalize="none" spellcheck={false} data-1p-ignore data-lpignore="true" onInput={(e) => onInput(e.currentTarget.value)} />
        <button type="button" class="button quiet" aria-pressed={shown} onClick={() => setShown(!shown)}>
          <Eye />
          {shown ? t.blocks.hide : t.blocks.reveal}
          <span class="visually-hidden">: {f.label}</span>
        </button>
      </div>
    );
  } else {
    control = (
      <input
        {...common}
        type={(f.kind === "number" ? "text" : inputType(f)) as "text"}
        inputMode={f.kind === "number" ? (f.integer ? "numeric" : "decimal") : undefined}
        class={f.kind === "number" ? "short" : undefined}
        value={text}
        autocomplete="off"
        autocapitalize="none"
        spellcheck={false}
        onInput={(e) => onInput(e.currentTarget.value)}
      />
    );
  }
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {control}
      {foot}
    </div>
  );
}
