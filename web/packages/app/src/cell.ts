// A value that components can watch.
import { useEffect, useState } from "preact/hooks";

export class Cell<T> {
  #value: T;
  #watchers = new Set<() => void>();

  constructor(initial: T) {
    this.#value = initial;
  }

  get value(): T {
    return this.#value;
  }

  set(next: T): void {
    if (Object.is(next, this.#value)) return;
    this.#value = next;
    for (const watcher of [...this.#watchers]) watcher();
  }

  update(change: (value: T) => T): void {
    this.set(change(this.#value));
  }

  watch(watcher: () => void): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }
}

export function useCell<T>(cell: Cell<T>): T {
  const [value, setValue] = useState(cell.value);
  useEffect(() => {
    // It may have changed between the first render and this effect.
    setValue(() => cell.value);
    return cell.watch(() => setValue(() => cell.value));
  }, [cell]);
  return value;
}
