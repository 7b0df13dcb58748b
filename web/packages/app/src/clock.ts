// The time as components see it: the host's, which decides when things lapse. A phone whose clock is wrong still shows
// the time that is truly left.
import { useEffect, useState } from "preact/hooks";

let ahead = 0;
/** `Date` headers are cut to the second, and answers take a while: less than this is no difference. */
const TOLERANCE_MS = 3000;

/** Learns from an answer that was asked for at `sent` and came at `came` (both by our clock) what the host's clock says. */
export function noteHostTime(host: number, sent: number, came: number): void {
  if (Number.isNaN(host)) return;
  const now = host + 500 - (sent + came) / 2;
  const slack = TOLERANCE_MS + (came - sent) / 2;
  if (Math.abs(now - ahead) > slack) ahead = Math.abs(now) > slack ? now : 0;
}

/** Now, by the host's clock. */
export function hostNow(): number {
  return Date.now() + ahead;
}

export function useNow(everyMs: number): number {
  const [now, setNow] = useState(hostNow);
  useEffect(() => {
    setNow(hostNow());
    const timer = setInterval(() => setNow(hostNow()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}
