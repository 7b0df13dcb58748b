// The one way the page reaches its host. Today that is plain HTTP, directly or through the pipe of a phone; an
// installable page can bring another implementation over the relay without any other file knowing.

import { noteHostTime } from "./clock";

/** What came back, whatever its status. */
export interface Reply {
  status: number;
  body: unknown;
}

/** No answer came: the host is down, or the way to it. */
export class Unreachable extends Error {}

export interface Subscription {
  close(): void;
}

export interface Transport {
  request(method: string, path: string, body?: unknown): Promise<Reply>;
  /** Opens the event stream once. `onEnd` is called at most once, when it broke; whoever opened it decides when to try again. */
  events(names: readonly string[], onOpen: () => void, onEvent: (name: string) => void, onEnd: () => void): Subscription;
  /** An address below the host that an `img` may load. */
  asset(path: string): string;
}

/** A request that takes longer than this is given up: nothing the page asks for is a long poll. */
const DEADLINE_MS = 20_000;

export class HttpTransport implements Transport {
  async request(method: string, path: string, body?: unknown): Promise<Reply> {
    const headers: Record<string, string> = { Accept: "application/json" };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    let response: Response;
    let text: string;
    const sent = Date.now();
    try {
      response = await fetch(path, {
        method,
        headers,
        body: body === undefined ? undefined : JSON.stringify(body),
        credentials: "same-origin",
        cache: "no-store",
        redirect: "error",
        signal: AbortSignal.timeout(DEADLINE_MS),
      });
      noteHostTime(Date.parse(response.headers.get("Date") ?? ""), sent, Date.now());
      text = await response.text();
    } catch (cause) {
      throw new Unreachable("no answer", { cause });
    }
    // A proxy on the way answers 502 to 504 with a page of its own when the host is away.
    const isJson = (response.headers.get("Content-Type") ?? "").includes("json");
    if (response.status >= 502 && response.status <= 504 && !isJson) throw new Unreachable("bad gateway");
    let parsed: unknown;
    if (isJson && text !== "") {
      try {
        parsed = JSON.parse(text);
      } catch (cause) {
        throw new Unreachable("the answer was cut off", { cause });
      }
    }
    return { status: response.status, body: parsed };
  }

  events(names: readonly string[], onOpen: () => void, onEvent: (name: string) => void, onEnd: () => void): Subscription {
    const source = new EventSource("/api/v1/events");
    let over = false;
    source.onopen = () => onOpen();
    for (const name of names) source.addEventListener(name, () => onEvent(name));
    source.onerror = () => {
      // The browser's own retry knows neither back-off nor sign-in, so the caller does it instead.
      source.close();
      if (!over) {
        over = true;
        onEnd();
      }
    };
    return {
      close() {
        over = true;
        source.close();
      },
    };
  }

  asset(path: string): string {
    // The host may name itself by another loopback name than the one in the address bar; only the path counts.
    const url = new URL(path, location.href);
    return url.pathname + url.search;
  }
}
