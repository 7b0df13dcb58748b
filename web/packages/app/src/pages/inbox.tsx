// What waits for a decision.
import { sentence } from "../api";
import { useCell } from "../cell";
import { Plus, RuneStone } from "../icons";
import { Card } from "../inbox/card";
import { cards } from "../inbox/reconcile";
import { Shortcuts } from "../inbox/shortcuts";
import { inbox, inboxError, refreshInbox } from "../inbox/store";
import { useConnector } from "./connector";
import { Link } from "../router";
import { useIsDevice } from "../session";
import { t } from "../strings";
import { Command, LoadError, Loading, PageHead } from "../ui/bits";

export function InboxPage() {
  const view = useCell(inbox);
  const error = useCell(inboxError);
  const list = cards(view);
  const n = view.items.length;
  return (
    <>
      <PageHead title={t.inbox.title} lead={n > 0 ? t.inbox.lead(n) : undefined} />
      {!view.loaded && error !== undefined ? (
        <LoadError text={`${t.inbox.loadFailed} ${sentence(error)}`} onRetry={() => void refreshInbox()} />
      ) : !view.loaded ? (
        <Loading />
      ) : list.length === 0 ? (
        <Empty />
      ) : (
        <section aria-labelledby="waiting">
          <h2 id="waiting" class="visually-hidden">
            {t.inbox.list}
          </h2>
          <div class="cards">
            {list.map(({ item, closed }) => (
              <Card key={item.request_id} item={item} closed={closed} />
            ))}
          </div>
        </section>
      )}
      <Shortcuts />
    </>
  );
}

/** Nothing waits: what to do next depends on how far one has come. */
function Empty() {
  const device = useIsDevice();
  const connector = useConnector(!device);
  return (
    <section class="empty">
      <RuneStone />
      <h2>{t.inbox.emptyTitle}</h2>
      {device ? (
        <p>{t.inbox.emptyDevice}</p>
      ) : (
        <>
          {connector.stage === "ready" && connector.devices.length === 0 && (
            <div class="step">
              <p>{t.inbox.emptyPair}</p>
              <Link href="/devices" class="button primary">
                <Plus />
                {t.inbox.pair}
              </Link>
            </div>
          )}
          {(connector.stage === "off" || connector.stage === "no-relay") && (
            <div class="step">
              <p>{t.inbox.emptyPlugin}</p>
              <Link href="/plugins/mobile-connector" class="button primary">
                {t.inbox.setUp}
              </Link>
            </div>
          )}
          <div class="step">
            <p>{t.inbox.emptyAsk}</p>
            <Command text={t.inbox.example} />
          </div>
        </>
      )}
    </section>
  );
}
