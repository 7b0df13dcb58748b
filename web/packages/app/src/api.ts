// Typed calls to the host, and what their failures mean to a person.
import { t } from "./strings";
import { HttpTransport, Unreachable, type Transport } from "./transport";
import type { FieldError } from "./types";

export const transport: Transport = new HttpTransport();

/** The host answered, and said no (RFC 9457). `message` is a sentence for people. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly fields: FieldError[];
  readonly body: Record<string, unknown>;

  constructor(status: number, body: unknown) {
    const b = isRecord(body) ? body : {};
    const detail = typeof b["detail"] === "string" && b["detail"] !== "" ? b["detail"] : undefined;
    const title = typeof b["title"] === "string" && b["title"].includes(" ") ? b["title"] : undefined;
    super(detail ?? title ?? t.errors.status(status));
    this.status = status;
    this.body = b;
    this.code = typeof b["type"] === "string" ? (b["type"].split(":").pop() ?? "") : "";
    this.fields = Array.isArray(b["errors"])
      ? b["errors"].filter(isRecord).map((e) => ({ field: String(e["field"] ?? ""), message: String(e["message"] ?? "") }))
      : [];
  }
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

type SignedOutListener = () => void;
let onSignedOut: SignedOutListener = () => {};

/** Called whenever the host answers that nobody is signed in. */
export function whenSignedOut(listener: SignedOutListener): void {
  onSignedOut = listener;
}

export async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  const reply = await transport.request(method, path, body);
  if (reply.status >= 200 && reply.status < 300) return reply.body as T;
  const error = new ApiError(reply.status, reply.body);
  // The sign-in itself answers 401 for a link that was used up: that is no lapse of the session.
  const signingIn = method === "POST" && path === "/api/v1/session";
  if (reply.status === 401 && !signingIn) onSignedOut();
  throw error;
}

/** A sentence for whatever was thrown. */
export function sentence(error: unknown): string {
  if (error instanceof ApiError) return error.message;
  if (error instanceof Unreachable) return t.errors.unreachable;
  return t.errors.unexpected;
}

export const paths = {
  session: "/api/v1/session",
  sessions: "/api/v1/sessions",
  tokens: "/api/v1/tokens",
  inbox: "/api/v1/inbox",
  history: "/api/v1/inbox/history",
  bypasses: "/api/v1/rules/bypasses",
  plugins: "/api/v1/plugins",
  settings: "/api/v1/settings",
  connector: "/api/plugin/mobile-connector",
  request: (id: string) => `/api/v1/inbox/requests/${encodeURIComponent(id)}`,
  answer: (id: string) => `/api/v1/inbox/requests/${encodeURIComponent(id)}/answer`,
  plugin: (id: string) => `/api/v1/plugins/${encodeURIComponent(id)}`,
  pairing: "/api/plugin/mobile-connector/pairing",
  pairingState: (code: string) => `/api/plugin/mobile-connector/pairing/${encodeURIComponent(code)}`,
  devices: "/api/plugin/mobile-connector/devices",
  device: (key: string) => `/api/plugin/mobile-connector/devices/${encodeURIComponent(key)}`,
  connectorStatus: "/api/plugin/mobile-connector/status",
} as const;
