// Display blocks: what a tool is about to do, for people.
import { useState } from "preact/hooks";
import { exactly } from "../format";
import { Eye, Warning } from "../icons";
import { t } from "../strings";
import { booleanWord, isWide, momentOf, rowsOf, urlParts, type Row } from "./blockrows";
import { Code, Diff, Json, Seen } from "./mono";

/** Hidden until asked for; its length is not given away either. */
export function Secret(props: { text: string }) {
  const [shown, setShown] = useState(false);
  return (
    <span class="secret">
      {shown ? (
        <code dir="ltr">
          <Seen text={props.text} code />
        </code>
      ) : (
        <span class="secret-mask">
          <span aria-hidden="true">••••••••</span>
          <span class="visually-hidden">{t.blocks.secret}</span>
        </span>
      )}
      <button type="button" class="button quiet small" aria-pressed={shown} onClick={() => setShown(!shown)}>
        <Eye />
        {shown ? t.blocks.hide : t.blocks.reveal}
      </button>
    </span>
  );
}

/** An address as text with its host set apart. It is never a link: following it is a decision of its own. */
export function Address(props: { text: string }) {
  const parts = urlParts(props.text);
  if (!parts) {
    return (
      <code class="address" dir="ltr">
        <Seen text={props.text} code />
      </code>
    );
  }
  return (
    <>
      <code class="address" dir="ltr">
        {parts.before}
        <strong>{parts.host}</strong>
        {parts.after}
      </code>
      {parts.punycode && (
        <span class="hint warn-text">
          <Warning /> {t.inbox.punycode}
        </span>
      )}
    </>
  );
}

function Value(props: { row: Row }) {
  const { row } = props;
  const label = row.label || t.blocks.value;
  switch (row.type) {
    case "diff":
      return <Diff text={row.text} label={label} />;
    case "command":
      return <Code text={row.text} label={label} prompt />;
    case "code":
      return <Code text={row.text} label={label} />;
    case "json":
      return <Json value={row.json} label={label} />;
    case "secret":
      return <Secret text={row.text} />;
    case "url":
      return <Address text={row.text} />;
    case "path":
    case "email":
      return (
        <code class="inline-code" dir="ltr">
          <Seen text={row.text} code />
        </code>
      );
    case "datetime": {
      const at = momentOf(row.text);
      return at === undefined ? <Seen text={row.text} /> : <time dateTime={new Date(at).toISOString()} title={row.text}>{exactly(at)}</time>;
    }
    case "boolean":
      return <span>{booleanWord(row.text)}</span>;
    case "number":
      return <span class="number">{row.text}</span>;
    default:
      return row.text === "" ? (
        <span class="faint">{t.blocks.none}</span>
      ) : (
        <span class="prose" dir="auto">
          <Seen text={row.text} />
        </span>
      );
  }
}

export function Blocks(props: { blocks: unknown; summary?: string }) {
  const { rows, foreign, summary } = rowsOf(props.blocks);
  if (rows.length === 0) return null;
  return (
    <>
      {foreign && <p class="hint">{t.blocks.version}</p>}
      {summary !== undefined && summary !== props.summary && (
        <p class="prose" dir="auto">
          <Seen text={summary} />
        </p>
      )}
      <dl class="blocks">
        {rows.map((row, i) => (
          <div key={i} class={isWide(row) ? "wide" : undefined}>
            <dt>{row.label || t.blocks.value}</dt>
            <dd>
              <Value row={row} />
            </dd>
          </div>
        ))}
      </dl>
    </>
  );
}
