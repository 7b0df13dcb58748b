// The frame around every page: navigation, the state of the connection, and who one is.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { useCell } from "./cell";
import { useNow } from "./clock";
import { span } from "./format";
import { DevicesIcon, HistoryIcon, InboxIcon, Mark, PluginsIcon, SettingsIcon, Warning } from "./icons";
import { dropAllDrafts } from "./inbox/drafts";
import { inbox, refreshInbox, startInbox, stopInbox } from "./inbox/store";
import { link, retryNow, startLive, stopLive } from "./live";
import { DevicesPage } from "./pages/devices";
import { HistoryPage } from "./pages/history";
import { InboxPage } from "./pages/inbox";
import { PluginPage } from "./pages/plugin";
import { PluginsPage } from "./pages/plugins";
import { SettingsPage } from "./pages/settings";
import { SignInPage, UnreachablePage } from "./pages/signin";
import { forgetResources } from "./resource";
import { go, Link, moves, route, type Route } from "./router";
import { session } from "./session";
import { t } from "./strings";
import type { Session } from "./types";
import { Loading, PageHead } from "./ui/bits";
import { Toasts } from "./ui/toast";

export function App() {
  const state = useCell(session);
  const signedIn = state.phase === "in";
  useEffect(() => {
    if (!signedIn) return;
    startInbox();
    startLive();
    void refreshInbox();
    return () => {
      // Nothing of a session outlives it, not even in memory.
      stopLive();
      stopInbox();
      dropAllDrafts();
      forgetResources();
    };
  }, [signedIn]);

  return (
    <>
      {state.phase === "in" ? (
        <Shell session={state.session} />
      ) : state.phase === "out" ? (
        <SignInPage why={state.why} detail={state.detail} />
      ) : state.phase === "unreachable" ? (
        <UnreachablePage />
      ) : (
        <main class="plain" aria-busy="true">
          <Mark />
          <Loading />
        </main>
      )}
      <Toasts />
    </>
  );
}

function pageName(r: Route): string {
  switch (r.page) {
    case "plugin":
      return t.nav.plugins;
    case "unknown":
      return t.app.notFound;
    default:
      return t.nav[r.page];
  }
}

function Shell(props: { session: Session }) {
  const here = useCell(route);
  const moved = useCell(moves);
  const view = useCell(inbox);
  const badge = view.items.length;

  useEffect(() => {
    document.title = t.app.titled(pageName(here), badge);
  }, [here, badge]);

  useEffect(() => {
    // After a move, keyboard and reader begin at the new page's heading; on the first load they begin at the top.
    if (moved > 0) document.querySelector<HTMLElement>("main h1")?.focus({ preventScroll: true });
  }, [moved]);

  const principal = props.session.principal;
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={(e) => {
        e.preventDefault();
        document.getElementById("main")?.focus();
      }}>
        {t.app.skip}
      </a>
      <header class="rail">
        <Link href="/inbox" class="brand">
          <Mark />
          <span class="brand-name">{t.app.name}</span>
        </Link>
        <nav class="nav" aria-label={t.app.nav}>
          <ul>
            <NavItem href="/inbox" label={t.nav.inbox} current={here.page === "inbox"} badge={badge} icon={<InboxIcon />} />
            <NavItem href="/history" label={t.nav.history} current={here.page === "history"} icon={<HistoryIcon />} />
            <NavItem href="/devices" label={t.nav.devices} current={here.page === "devices"} icon={<DevicesIcon />} />
            <NavItem href="/plugins" label={t.nav.plugins} current={here.page === "plugins" || here.page === "plugin"} icon={<PluginsIcon />} />
            <NavItem href="/settings" label={t.nav.settings} current={here.page === "settings"} icon={<SettingsIcon />} />
          </ul>
        </nav>
        <LinkState />
      </header>
      <main id="main" tabIndex={-1}>
        <LinkBanner />
        {principal.kind === "device" && (
          <p class="as-device">
            {t.app.asDevice(principal.name ?? "")}
            {here.page !== "inbox" && here.page !== "history" && ` ${t.app.asDeviceMore}`}
          </p>
        )}
        <Page route={here} />
      </main>
    </div>
  );
}

function NavItem(props: { href: string; label: string; current: boolean; badge?: number; icon: ComponentChildren }) {
  return (
    <li>
      <Link href={props.href} current={props.current}>
        {props.icon}
        <span class="nav-label">{props.label}</span>
        {props.badge ? (
          <span class="badge">
            <span aria-hidden="true">{props.badge}</span>
            <span class="visually-hidden">{t.app.waitingCount(props.badge)}</span>
          </span>
        ) : null}
      </Link>
    </li>
  );
}

function Page(props: { route: Route }) {
  const r = props.route;
  switch (r.page) {
    case "inbox":
      return <InboxPage />;
    case "history":
      return <HistoryPage />;
    case "devices":
      return <DevicesPage />;
    case "plugins":
      return <PluginsPage />;
    case "plugin":
      return <PluginPage key={r.id} id={r.id} />;
    case "settings":
      return <SettingsPage />;
    case "unknown":
      return (
        <>
          <PageHead title={t.app.notFound} lead={t.app.notFoundHelp} />
          <button type="button" class="button" onClick={() => go("/inbox")}>
            {t.app.toInbox}
          </button>
        </>
      );
  }
}

/** A quiet dot: whether changes appear by themselves. */
function LinkState() {
  const l = useCell(link);
  const text = l.state === "live" ? t.link.live : l.state === "lost" ? t.link.lost : t.link.connecting;
  return (
    <p class={`link-state ${l.state}`} title={l.state === "live" ? t.link.liveHelp : undefined}>
      <span class="dot" aria-hidden="true" />
      <span class="link-text">{text}</span>
    </p>
  );
}

/** Says plainly that the connection is lost and that it is tried again. The region stays, so that readers notice. */
function LinkBanner() {
  const l = useCell(link);
  const [wasLost, setWasLost] = useState(false);
  useEffect(() => {
    if (l.state === "lost") setWasLost(true);
    if (l.state !== "live" || !wasLost) return;
    const timer = setTimeout(() => setWasLost(false), 4000);
    return () => clearTimeout(timer);
  }, [l.state, wasLost]);
  return (
    <div class="link-banner">
      <div role="status">
        {l.state === "lost" && (
          <p class="lost">
            <Warning />
            <span>
              <strong>{t.link.lost}</strong> {t.link.stale}
            </span>
          </p>
        )}
        {l.state === "live" && wasLost && <p class="back">{t.link.back}</p>}
      </div>
      {l.state === "lost" && (
        <p class="retry">
          {l.retryAt === undefined ? t.link.retrying : <Countdown until={l.retryAt} />}
          <button type="button" class="button small" disabled={l.retryAt === undefined} onClick={retryNow}>
            {t.link.retryNow}
          </button>
        </p>
      )}
    </div>
  );
}

function Countdown(props: { until: number }) {
  const now = useNow(1000);
  return <span>{t.link.retryIn(span(Math.max(1000, props.until - now)))}</span>;
}
