// What an item shows, without the means to answer: the Inbox and the history draw it alike.
import { isRecord } from "../api";
import { titleOf } from "../format";
import { ApprovalIcon, InputIcon, QuestionIcon, Warning } from "../icons";
import { t } from "../strings";
import type { Approval, Clarification, Elicitation, Item, Kind } from "../types";
import { CopyButton } from "../ui/bits";
import { Address, Blocks } from "../ui/blocks";
import { rowsOf, urlParts } from "../ui/blockrows";
import { Json, Seen } from "../ui/mono";

export function KindIcon(props: { kind: Kind }) {
  return props.kind === "approval" ? <ApprovalIcon /> : props.kind === "clarification" ? <QuestionIcon /> : <InputIcon />;
}

export function ItemTitle(props: { item: Item }) {
  return <Seen text={titleOf(props.item)} />;
}

function Prose(props: { text: string }) {
  return (
    <p class="prose" dir="auto">
      <Seen text={props.text} />
    </p>
  );
}

/** A heading within an item; its level depends on where the item stands. */
function Heading(props: { level: 3 | 4; children: string }) {
  return props.level === 3 ? <h3 class="part-head">{props.children}</h3> : <h4 class="part-head">{props.children}</h4>;
}

function Arguments(props: { value: unknown; folded: boolean; level: 3 | 4 }) {
  if (props.value === undefined || props.value === null) return null;
  if (isRecord(props.value) && Object.keys(props.value).length === 0) return null;
  const body = (
    <>
      <Json value={props.value} label={t.inbox.arguments} />
      <CopyButton text={JSON.stringify(props.value, null, 2)} label={t.inbox.copyJson} />
    </>
  );
  if (props.folded) {
    return (
      <details class="fold">
        <summary>{t.inbox.allArguments}</summary>
        {body}
      </details>
    );
  }
  return (
    <section class="part">
      <Heading level={props.level}>{t.inbox.arguments}</Heading>
      {body}
    </section>
  );
}

function ApprovalBody(props: { item: Approval; level: 3 | 4 }) {
  const { item } = props;
  const hasBlocks = rowsOf(item.blocks).rows.length > 0;
  return (
    <>
      <dl class="facts">
        <div>
          <dt>{t.inbox.tool}</dt>
          <dd>
            <code class="inline-code">
              <Seen text={item.tool_name} code />
            </code>
          </dd>
        </div>
        <div>
          <dt>{t.inbox.from}</dt>
          <dd>
            <Seen text={item.agent_label} />
          </dd>
        </div>
        {item.session && (
          <div>
            <dt>{t.inbox.session}</dt>
            <dd>
              <Seen text={item.session} />
            </dd>
          </div>
        )}
      </dl>
      {item.detail && <Prose text={item.detail} />}
      {hasBlocks && (
        <section class="part">
          <Heading level={props.level}>{t.inbox.details}</Heading>
          <Blocks blocks={item.blocks} summary={item.summary} />
        </section>
      )}
      <Arguments value={item.arguments} folded={hasBlocks} level={props.level} />
    </>
  );
}

function ClarificationBody(props: { item: Clarification }) {
  const { item } = props;
  return (
    <>
      {item.agent_label && (
        <dl class="facts">
          <div>
            <dt>{t.inbox.from}</dt>
            <dd>
              <Seen text={item.agent_label} />
            </dd>
          </div>
        </dl>
      )}
      {item.context && <Prose text={item.context} />}
    </>
  );
}

function ElicitationBody(props: { item: Elicitation; level: 3 | 4 }) {
  const { item } = props;
  const url = item.mode === "url" ? item.url : undefined;
  const parts = url === undefined ? undefined : urlParts(url);
  return (
    <>
      <p class="asker">
        <Seen text={t.inbox.asks(item.server_name)} />
      </p>
      {url !== undefined && (
        <section class="part">
          <Heading level={props.level}>{t.inbox.openUrl}</Heading>
          <Address text={url} />
          {parts?.web ? (
            <dl class="facts">
              <div>
                <dt>{t.inbox.urlHost}</dt>
                <dd>
                  <code class="inline-code">{parts.host}</code>
                </dd>
              </div>
            </dl>
          ) : (
            <p class="hint warn-text">
              <Warning /> {t.inbox.badUrl}
            </p>
          )}
        </section>
      )}
    </>
  );
}

export function ItemBody(props: { item: Item; level: 3 | 4 }) {
  switch (props.item.kind) {
    case "approval":
      return <ApprovalBody item={props.item} level={props.level} />;
    case "clarification":
      return <ClarificationBody item={props.item} />;
    case "elicitation":
      return <ElicitationBody item={props.item} level={props.level} />;
  }
}
