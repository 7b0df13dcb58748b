// Paired devices: pair, admit, rename, revoke.
import { useId, useState } from "preact/hooks";
import { call, paths, sentence } from "../api";
import { codeGroups, deviceName } from "../format";
import { Check, Cross, DevicesIcon, Plus } from "../icons";
import { Link } from "../router";
import { useMay } from "../session";
import { t } from "../strings";
import type { Device } from "../types";
import { Ago, LoadError, Loading, Notice, PageHead } from "../ui/bits";
import { RevokeDialog } from "../ui/revoke";
import { toast } from "../ui/toast";
import { useConnector, type Connector } from "./connector";
import { PairingPanel } from "./pairing";

export function DevicesPage() {
  const connector = useConnector();
  const admin = useMay("administer");
  const [pairing, setPairing] = useState(false);
  const waiting = connector.devices.filter((d) => d.state === "pending");
  const admitted = connector.devices.filter((d) => d.state !== "pending");
  const canPair = admin && (connector.stage === "ready" || connector.stage === "down");
  return (
    <>
      <PageHead title={t.devices.title} lead={t.devices.lead}>
        {canPair && !pairing && (
          <button type="button" class="button primary" onClick={() => setPairing(true)}>
            <Plus />
            {t.devices.pair}
          </button>
        )}
      </PageHead>
      {connector.error !== undefined && !connector.plugin && <LoadError text={sentence(connector.error)} onRetry={() => void connector.reload()} />}
      <Trouble connector={connector} admin={admin} />
      {pairing && canPair && (
        <PairingPanel
          onClose={() => setPairing(false)}
          onPaired={() => {
            toast(t.devices.paired);
            setPairing(false);
            void connector.reload().then(focusWaiting);
          }}
        />
      )}
      <div aria-live="polite">
        {waiting.length > 0 && (
          <section class="section" aria-labelledby="waiting-devices">
            <h2 id="waiting-devices">{t.devices.waiting}</h2>
            {waiting.map((d) => (
              <Waiting key={d.key} device={d} admin={admin} reload={connector.reload} />
            ))}
          </section>
        )}
      </div>
      {connector.stage === "loading" && connector.error === undefined && <Loading />}
      {connector.devicesError !== undefined && connector.stage !== "off" && connector.stage !== "no-relay" && connector.stage !== "missing" && !connector.devicesLoaded && (
        <LoadError text={sentence(connector.devicesError)} onRetry={() => void connector.reload()} />
      )}
      {connector.devicesLoaded && (admitted.length > 0 || connector.stage !== "no-relay") && (
        <section class="section" aria-labelledby="your-devices">
          <h2 id="your-devices">{t.devices.list}</h2>
          {admitted.length === 0 ? (
            <div class="empty small-empty">
              <DevicesIcon />
              <p>
                <strong>{t.devices.empty}</strong>
              </p>
              <p>{t.devices.emptyHelp}</p>
            </div>
          ) : (
            <ul class="rows">
              {admitted.map((d) => (
                <DeviceRow key={d.key} device={d} admin={admin} reload={connector.reload} />
              ))}
            </ul>
          )}
        </section>
      )}
    </>
  );
}

/** The window that had the focus is gone: the device it let in takes it, unless one is elsewhere by now. */
function focusWaiting(): void {
  requestAnimationFrame(() => {
    if (document.activeElement === document.body) document.querySelector<HTMLElement>(".card.waiting")?.focus();
  });
}

function Trouble(props: { connector: Connector; admin: boolean }) {
  const { stage, plugin, status } = props.connector;
  const settings = props.admin && (
    <p>
      <Link href="/plugins/mobile-connector">{t.devices.toSettings}</Link>
    </p>
  );
  switch (stage) {
    case "missing":
      return (
        <Notice tone="warn" title={t.devices.missing}>
          <p>{t.devices.missingHelp}</p>
        </Notice>
      );
    case "off":
      return (
        <Notice tone="info" title={t.devices.off}>
          <p>{t.devices.offHelp}</p>
          {settings}
        </Notice>
      );
    case "no-relay":
      return (
        <Notice tone="info" title={t.devices.noRelay}>
          <p>{t.devices.noRelayHelp}</p>
          {settings}
        </Notice>
      );
    case "down":
      return (
        <Notice tone="warn" title={t.devices.failing}>
          <p>{plugin?.status.message ?? status?.last_error ?? t.devices.noLink}</p>
          {settings}
        </Notice>
      );
    default:
      return null;
  }
}

function describe(d: Device, name: string): string {
  const info = d.device_info ?? {};
  const platform = info.platform ?? d.platform ?? "";
  const system = [t.devices.platform[platform] ?? platform, info.os_version].filter((x) => x).join(" ");
  return [info.model === name ? "" : info.model, system, info.app_version].filter((x) => x).join(" · ");
}

/** A device that asks to be let in: the one moment when a relay that lies would be found out. */
function Waiting(props: { device: Device; admin: boolean; reload: () => Promise<void> }) {
  const { device, admin } = props;
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string>();
  const name = deviceName(device);
  const id = useId();
  const act = async (admit: boolean) => {
    setBusy(true);
    setError(undefined);
    try {
      if (admit) await call("POST", `${paths.device(device.key)}/authorize`);
      else await call("DELETE", paths.device(device.key));
      toast(admit ? t.devices.admitted(name) : t.devices.refused(name));
      await props.reload();
    } catch (e) {
      setError(sentence(e));
    }
    setBusy(false);
  };
  return (
    <article class="card waiting" tabIndex={-1} aria-labelledby={id} data-device={device.key}>
      <h3 id={id}>{name}</h3>
      <p class="faint">{describe(device, name)}</p>
      {device.verification_code ? (
        <>
          <p>
            <strong>{t.devices.compare}</strong>
          </p>
          <p class="code-large">
            <span class="visually-hidden">{t.devices.code}: </span>
            {codeGroups(device.verification_code)}
          </p>
          <p class="hint">{t.devices.compareHelp}</p>
        </>
      ) : (
        <p class="hint">{t.devices.noCode}</p>
      )}
      {error && (
        <Notice tone="bad" alert>
          <p>{error}</p>
        </Notice>
      )}
      {admin && (
        <div class="actions main">
          <button type="button" class="button primary" disabled={busy} aria-describedby={id} onClick={() => void act(true)}>
            <Check />
            {t.devices.admit}
          </button>
          <button type="button" class="button danger" disabled={busy} aria-describedby={id} onClick={() => void act(false)}>
            <Cross />
            {t.devices.refuse}
          </button>
        </div>
      )}
    </article>
  );
}

function DeviceRow(props: { device: Device; admin: boolean; reload: () => Promise<void> }) {
  const { device: d, admin } = props;
  const [mode, setMode] = useState<"show" | "rename" | "revoke">("show");
  const name = deviceName(d);
  const about = describe(d, name);
  return (
    <li class="row" data-device={d.key}>
      <div class="row-main">
        <h3>{name}</h3>
        <p class="meta">
          <span class={`presence ${d.online ? "online" : ""}`}>
            <span class="dot" aria-hidden="true" />
            {d.online ? t.devices.online : d.last_seen ? <Ago at={d.last_seen} wrap={t.devices.lastSeen} /> : t.devices.neverSeen}
          </span>
          {about && <span>{about}</span>}
          {d.created_at && <Ago at={d.created_at} wrap={t.devices.pairedOn} />}
        </p>
        <p class="meta">
          <span>
            {t.devices.key} <code title={d.key}>{d.key.slice(0, 16)}…</code>
          </span>
          {d.verification_code && (
            <span>
              {t.devices.code} <code>{codeGroups(d.verification_code)}</code>
            </span>
          )}
        </p>
        {mode === "rename" && <Rename device={d} name={name} onDone={() => setMode("show")} reload={props.reload} />}
      </div>
      {admin && mode !== "rename" && (
        <div class="row-actions">
          <button type="button" class="button quiet small" aria-label={t.devices.renameOf(name)} onClick={() => setMode("rename")}>
            {t.devices.rename}
          </button>
          <button type="button" class="button danger small" aria-label={t.devices.revokeOf(name)} onClick={() => setMode("revoke")}>
            {t.devices.revoke}
          </button>
        </div>
      )}
      {mode === "revoke" && <Revoke device={d} name={name} onDone={() => setMode("show")} reload={props.reload} />}
    </li>
  );
}

function Rename(props: { device: Device; name: string; onDone: () => void; reload: () => Promise<void> }) {
  const [text, setText] = useState(props.name);
  const [error, setError] = useState<string>();
  const [busy, setBusy] = useState(false);
  const id = useId();
  return (
    <form
      class="inline-form"
      onSubmit={async (event) => {
        event.preventDefault();
        const name = text.trim();
        if (name === "") return setError(t.devices.nameEmpty);
        setBusy(true);
        try {
          await call("PUT", paths.device(props.device.key), { name });
          toast(t.devices.renamed);
          await props.reload();
          props.onDone();
        } catch (e) {
          setError(sentence(e));
          setBusy(false);
        }
      }}
    >
      <div class="field">
        <label for={id}>{t.devices.name}</label>
        <input id={id} type="text" maxLength={64} autofocus ref={(el) => el?.focus()} value={text} disabled={busy} aria-invalid={error ? true : undefined} aria-describedby={error ? `${id}-error` : undefined} onInput={(e) => setText(e.currentTarget.value)} />
        {error && (
          <p class="field-error" id={`${id}-error`}>
            {error}
          </p>
        )}
      </div>
      <div class="actions">
        <button type="submit" class="button primary small" disabled={busy}>
          {t.devices.save}
        </button>
        <button type="button" class="button quiet small" disabled={busy} onClick={props.onDone}>
          {t.app.cancel}
        </button>
      </div>
    </form>
  );
}

function Revoke(props: { device: Device; name: string; onDone: () => void; reload: () => Promise<void> }) {
  const { device, name, ...rest } = props;
  const words = { title: t.devices.revokeTitle(name), text: t.devices.revokeText, button: t.devices.revoke, done: t.devices.revoked(name) };
  return <RevokeDialog {...words} path={paths.device(device.key)} {...rest} />;
}
