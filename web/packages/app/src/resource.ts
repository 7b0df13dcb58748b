// Something fetched from the host and kept fresh by its events.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError, call } from "./api";
import { on, suspect, type Topic } from "./live";
import { Unreachable } from "./transport";

export interface Resource<T> {
  data?: T;
  /** Why the last fetch failed; `data` may still hold what was known before. */
  error?: unknown;
  loading: boolean;
  reload(): Promise<void>;
}

// What was seen last is shown at once when one comes back to a page. Held in memory alone.
const seen = new Map<string, unknown>();

export function forgetResources(): void {
  seen.clear();
}

export function useResource<T>(path: string | null, topics: readonly Topic[]): Resource<T> {
  const [state, setState] = useState<{ path: string | null; data?: T; error?: unknown; loading: boolean }>(() => ({
    path,
    data: path === null ? undefined : (seen.get(path) as T | undefined),
    loading: path !== null,
  }));
  const turn = useRef(0);
  const alive = useRef(true);

  const reload = useCallback(async () => {
    if (path === null) return;
    const mine = ++turn.current;
    try {
      const data = await call<T>("GET", path);
      // An older answer never replaces a newer one.
      if (!alive.current || mine !== turn.current) return;
      seen.set(path, data);
      setState({ path, data, loading: false });
    } catch (error) {
      if (error instanceof Unreachable) suspect();
      if (!alive.current || mine !== turn.current) return;
      setState((s) => ({
        path,
        // A refusal replaces what was known; silence or a fault at the host does not.
        data: error instanceof ApiError && (error.status < 500 || error.status === 503) ? undefined : s.path === path ? s.data : undefined,
        error,
        loading: false,
      }));
    }
  }, [path]);

  useEffect(() => {
    alive.current = true;
    setState((s) => (s.path === path ? s : { path, data: path === null ? undefined : (seen.get(path) as T | undefined), loading: path !== null }));
    void reload();
    const offs = topics.map((topic) => on(topic, () => void reload()));
    return () => {
      alive.current = false;
      for (const off of offs) off();
    };
  }, [path, reload, topics.join()]);

  if (state.path !== path) return { loading: path !== null, reload };
  return { data: state.data, error: state.error, loading: state.loading, reload };
}
