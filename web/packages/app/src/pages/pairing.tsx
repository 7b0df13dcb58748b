// The pairing window: a QR with the time it has left, until a device has scanned it.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { call, paths, sentence, transport } from "../api";
import { useNow } from "../clock";
import { countdown } from "../format";
import { on } from "../live";
import { t } from "../strings";
import type { Pairing, PairingStatus } from "../types";
import { LoadError, Loading } from "../ui/bits";

/** Between looks at the window's state, should an event be missed. */
const POLL_MS = 2000;

export function PairingPanel(props: { onClose: () => void; onPaired: () => void }) {
  const [pairing, setPairing] = useState<Pairing>();
  const [state, setState] = useState<PairingStatus["state"]>("open");
  const [error, setError] = useState<unknown>();
  const heading = useRef<HTMLHeadingElement>(null);
  const { onClose, onPaired } = props;

  const begin = useCallback(async () => {
    setError(undefined);
    setPairing(undefined);
    setState("open");
    try {
      setPairing(await call<Pairing>("POST", paths.pairing, {}));
    } catch (e) {
      setError(e);
    }
  }, []);

  useEffect(() => {
    heading.current?.focus({ preventScroll: true });
    void begin();
  }, [begin]);

  const code = pairing?.code;
  useEffect(() => {
    if (code === undefined || state !== "open") return;
    let alive = true;
    const look = async () => {
      try {
        const s = await call<PairingStatus>("GET", paths.pairingState(code));
        if (alive && s.state !== "open") setState(s.state);
      } catch {
        // The next look tells more; the page's own banner shows a lost connection.
      }
    };
    const timer = setInterval(() => void look(), POLL_MS);
    const off = on("devices", () => void look());
    return () => {
      alive = false;
      clearInterval(timer);
      off();
    };
  }, [code, state]);

  useEffect(() => {
    if (state === "paired") onPaired();
  }, [state]);

  return (
    <section class="card pairing" aria-labelledby="pairing">
      <h2 id="pairing" ref={heading} tabIndex={-1}>
        {t.devices.pairing}
      </h2>
      {error !== undefined ? (
        <LoadError text={sentence(error)} onRetry={() => void begin()} />
      ) : !pairing ? (
        <Loading />
      ) : (
        <Window pairing={pairing} state={state} onLapse={() => setState("expired")} />
      )}
      <div class="actions">
        {(state === "expired" || state === "superseded") && (
          <button type="button" class="button primary" onClick={() => void begin()}>
            {t.devices.newCode}
          </button>
        )}
        <button type="button" class="button" onClick={onClose}>
          {t.devices.stopPairing}
        </button>
      </div>
    </section>
  );
}

function Window(props: { pairing: Pairing; state: PairingStatus["state"]; onLapse: () => void }) {
  const { pairing, state } = props;
  const now = useNow(500);
  const left = pairing.expires_at - now;
  const over = state !== "open" || left <= 0;
  useEffect(() => {
    if (left <= 0 && state === "open") props.onLapse();
  }, [left <= 0, state]);
  return (
    <>
      {!over && (
        <>
          <p>{t.devices.scan}</p>
          <img class="qr" src={transport.asset(pairing.qr_url)} alt={t.devices.qrAlt} />
          <p class="valid">
            {t.devices.validFor} <strong class="number">{countdown(left)}</strong>
          </p>
        </>
      )}
      <div role="status">{over && <p>{state === "superseded" ? t.devices.superseded : t.devices.expired}</p>}</div>
    </>
  );
}
