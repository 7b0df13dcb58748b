// What the host's API speaks. Fields a newer host may add are ignored; fields an older one may lack are optional.

export type Permission = "read" | "answer" | "ask" | "administer";

export interface Session {
  principal: { kind: "owner" | "token" | "device"; name?: string; key?: string };
  permissions: Permission[];
  version: string;
}

interface Common {
  request_id: string;
  created_at: number;
  expires_at?: number;
}

export interface Approval extends Common {
  kind: "approval";
  tool_name: string;
  agent_label: string;
  summary: string;
  detail?: string;
  arguments?: unknown;
  blocks?: unknown;
  session?: string;
}

export interface Clarification extends Common {
  kind: "clarification";
  question: string;
  agent_label: string;
  context?: string;
  suggested_answers?: string[];
}

export interface Elicitation extends Common {
  kind: "elicitation";
  server_name: string;
  message: string;
  field_name: string | null;
  sensitive: boolean;
  is_confirmation: boolean;
  schema?: unknown;
  mode?: "form" | "url";
  url?: string;
}

export type Item = Approval | Clarification | Elicitation;
export type Kind = Item["kind"];

export interface InboxReply {
  badge: number;
  revision?: number;
  approvals: Omit<Approval, "kind">[];
  clarifications: Omit<Clarification, "kind">[];
  elicitations: Omit<Elicitation, "kind">[];
}

/** Who did something: `web`, `token:NAME`, `device:NAME`, `rule:NAME`, `timeout`, or the same as an object. */
export type By = string | { kind: string; name?: string; key?: string };

export interface Outcome {
  decision?: "approved" | "rejected";
  reason?: string;
  answer?: string;
  action?: "accept" | "decline" | "cancel";
}

export type ItemState = "pending" | "resolved" | "expired" | "cancelled";

export interface LateAnswer {
  by?: By;
  at?: number;
  outcome?: Outcome;
}

export interface RequestStatus {
  request_id?: string;
  state: ItemState;
  outcome?: Outcome;
  resolved_by?: By;
  late_answers?: LateAnswer[];
}

export interface HistoryEntry {
  request_id: string;
  kind: Kind;
  state: ItemState;
  created_at: number;
  ended_at?: number;
  resolved_by?: By;
  outcome?: Outcome;
  late_answers?: LateAnswer[];
  item?: Record<string, unknown>;
}

export interface HistoryPage {
  items: HistoryEntry[];
  next?: string | number | null;
}

export type Answer =
  | { decision: "approved" | "rejected"; reason?: string; bypass_secs?: number }
  | { answer: string }
  | { action: "accept" | "decline" | "cancel"; content?: Record<string, unknown> };

export interface Bypass {
  id: number | string;
  tool_name: string;
  agent_label?: string;
  session?: string | null;
  created_at: number;
  expires_at?: number | null;
  created_by?: By;
  uses?: number;
}

export type PluginState = "disabled" | "idle" | "starting" | "running" | "degraded" | "failed";

export interface Plugin {
  id: string;
  name: string;
  description: string;
  enabled: boolean;
  config: Record<string, unknown> | null;
  schema: unknown;
  status: { state: PluginState; message?: string; since: number };
}

export interface DeviceInfo {
  platform?: string;
  model?: string;
  os_version?: string;
  app_version?: string;
  device_name?: string;
}

export interface Device {
  key: string;
  name?: string;
  state: "pending" | "authorized";
  platform?: string;
  device_info?: DeviceInfo | null;
  verification_code?: string;
  created_at?: number;
  last_seen?: number | null;
  online?: boolean;
}

export interface Pairing {
  code: string;
  qr_url: string;
  expires_at: number;
}

export interface PairingStatus {
  state: "open" | "paired" | "expired" | "superseded";
  device?: Partial<Device> & { key?: string };
}

export interface ConnectorStatus {
  state: string;
  relay_url?: string;
  namespace_id?: string;
  last_error?: string | null;
  since?: number;
}

export interface WebSession {
  id: string;
  created_at: number;
  last_used?: number;
  current?: boolean;
}

export interface ApiToken {
  name: string;
  created_at: number;
  last_used?: number | null;
}

export interface HostSettings {
  default_timeout_secs: number;
  history_days: number;
}

export interface FieldError {
  field: string;
  message: string;
}
