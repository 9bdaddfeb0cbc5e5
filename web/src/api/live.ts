import { useEffect, useState } from "react";
import { ApiError, call, type Schema } from "./client";

export type Overview = Schema<"Overview">;

export interface Live {
  overview?: Overview;
  error?: string;
  signedOut?: boolean;
}

// However many tabs are open, one of them has a stream: the one that has the lock. It is a
// visible one, and gives the lock back when it is hidden. The others listen to it. So a
// browser has one connection for this, where HTTP/1.1 allows it six.
const pauseMillis = 1000;
const quietMillis = 5_000; // after which a stream is taken for dead; it says something each second
const staleMillis = 10_000;
const lookPatienceMillis = 5_000; // so that a server which hangs is told of in ten seconds

/** stream hands on each overview until the stream ends, is quiet, or the signal aborts. */
function stream(take: (overview: Overview) => void, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const source = new EventSource("/v1/overview/stream");
    const end = () => {
      clearTimeout(quiet);
      source.close();
      resolve();
    };
    let quiet = setTimeout(end, quietMillis);
    source.onmessage = (e: MessageEvent<string>) => {
      clearTimeout(quiet);
      quiet = setTimeout(end, quietMillis);
      take(JSON.parse(e.data) as Overview);
    };
    source.onerror = end; // a refusal has no status here: the call below asks for it
    signal.addEventListener("abort", end, { once: true });
  });
}

/** ask is one look by an ordinary call: where a stream ends, and where a proxy holds it back. */
async function ask(signal: AbortSignal): Promise<Live> {
  try {
    return { overview: await call("get", "/v1/overview", { signal, patienceMillis: lookPatienceMillis }), error: undefined };
  } catch (e) {
    return e instanceof ApiError ? { error: e.message, signedOut: e.status === 401 } : { error: "The server does not answer." };
  }
}

const pause = (signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, pauseMillis);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });

/** follow tells all that is known until the signal aborts. */
async function follow(tell: (next: Live) => void, signal: AbortSignal) {
  while (!signal.aborted) {
    await stream((overview) => tell({ overview, error: undefined }), signal);
    if (signal.aborted) return;
    const next = await ask(signal);
    if (signal.aborted) return;
    tell(next);
    await pause(signal);
  }
}

export function useLive(): Live & { stale: boolean } {
  const [live, setLive] = useState<Live>({});
  const [seenAt, setSeenAt] = useState(() => Date.now());
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const channel = new BroadcastChannel("sluice-live");
    const take = (next: Live) => {
      setLive((before) => ({ ...before, error: undefined, ...next }));
      if (next.overview) setSeenAt(Date.now());
    };
    const tell = (next: Live) => {
      take(next);
      channel.postMessage(next);
    };
    channel.onmessage = (e: MessageEvent<Live>) => take(e.data);
    let leading = new AbortController();
    const lead = () => {
      leading.abort();
      leading = new AbortController();
      const { signal } = leading;
      if (document.hidden) return;
      setSeenAt(Date.now()); // while it was hidden it had no stream, by its own will
      navigator.locks.request("sluice-live", { signal }, () => follow(tell, signal)).catch(() => undefined); // the lock is not wanted any more
    };
    lead();
    document.addEventListener("visibilitychange", lead);
    const tick = setInterval(() => setNow(Date.now()), pauseMillis);
    return () => {
      leading.abort();
      clearInterval(tick);
      document.removeEventListener("visibilitychange", lead);
      channel.close();
    };
  }, []);
  return { ...live, stale: live.overview !== undefined && now - seenAt > staleMillis };
}
