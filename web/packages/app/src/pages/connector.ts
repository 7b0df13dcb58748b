// How far the mobile connector has come, as the pages that lean on it need to know.
import { ApiError, paths } from "../api";
import { useResource } from "../resource";
import type { ConnectorStatus, Device, Plugin } from "../types";

export interface Connector {
  /** `missing`: not built in; `off`: not enabled; `no-relay`: enabled, no address; `down`: enabled, but not at work. */
  stage: "loading" | "missing" | "off" | "no-relay" | "down" | "ready";
  plugin?: Plugin;
  status?: ConnectorStatus;
  devices: Device[];
  devicesLoaded: boolean;
  devicesError?: unknown;
  error?: unknown;
  reload(): Promise<void>;
}

const TOPICS = ["devices", "plugins"] as const;

export function useConnector(wanted = true): Connector {
  const plugin = useResource<Plugin>(wanted ? paths.plugin("mobile-connector") : null, ["plugins"]);
  const on = plugin.data?.enabled === true;
  const devices = useResource<Device[]>(on ? paths.devices : null, TOPICS);
  const status = useResource<ConnectorStatus>(on ? paths.connectorStatus : null, TOPICS);
  const relay = plugin.data?.config?.["relay_url"];
  const missing = plugin.error instanceof ApiError && plugin.error.status === 404;
  let stage: Connector["stage"];
  if (missing) stage = "missing";
  else if (!plugin.data) stage = "loading";
  else if (!plugin.data.enabled) stage = "off";
  else if (typeof relay !== "string" || relay.trim() === "") stage = "no-relay";
  else if (plugin.data.status.state === "running") stage = "ready";
  else stage = "down";
  const list = Array.isArray(devices.data) ? devices.data : [];
  return {
    stage,
    plugin: plugin.data,
    status: status.data,
    devices: list,
    devicesLoaded: devices.data !== undefined,
    devicesError: devices.error,
    error: missing ? undefined : plugin.error,
    reload: async () => {
      await Promise.all([plugin.reload(), devices.reload(), status.reload()]);
    },
  };
}
