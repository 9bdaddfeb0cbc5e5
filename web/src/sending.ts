import { useSyncExternalStore } from "react";
import { ApiError, call, type Schema } from "./api/client";

// Files on their way. A file is sent in pieces, each of which the server has durably when
// it answers; what is sent goes on while other pages are looked at, and is begun again from
// where the server stands, in whichever tab the file is chosen again.

const pieceBytes = 1 << 20;
const leastBytes = 64 << 10; // that the server takes of all but the last piece
const quickMillis = 10_000; // a piece that took no longer may be followed by one twice as large: the server reads for 30 s
const piecePatience = 180_000; // milliseconds: a slow line, and a store that is behind
const firstPause = 1000; // milliseconds; doubled up to mostPause
const mostPause = 30_000;

/** Sent is how far a file is. */
export interface Sent {
  offset: number;
  size: number;
  bytesPerSecond: number;
  waiting: string; // why nothing goes on for now; empty: it does
  error?: Error; // why it has ended before its end
  running: boolean;
}

interface Sending { sent: Sent; stop: AbortController }

const files = new Map<string, Sending>();
const listeners = new Set<() => void>();

function tell(id: string, change: Partial<Sent>) {
  const s = files.get(id);
  if (!s) return;
  s.sent = { ...s.sent, ...change };
  for (const f of listeners) f();
}

const pause = (ms: number, signal: AbortSignal) => new Promise<void>((done) => {
  const timer = setTimeout(done, ms);
  signal.addEventListener("abort", () => { clearTimeout(timer); done(); }, { once: true });
});

/** bytesOf reads a part of a file, which may have gone since it was chosen. */
async function bytesOf(file: File, from: number, to: number): Promise<ArrayBuffer> {
  try {
    return await file.slice(from, to).arrayBuffer();
  } catch {
    throw new ApiError(400, "file", "The file cannot be read any more. Choose it again.");
  }
}

/** passes reports whether an error may be over by itself. */
const passes = (e: unknown): e is ApiError => e instanceof ApiError && [0, 408, 429, 500, 502, 503, 504].includes(e.status);

async function send(id: string, file: File, from: number, signal: AbortSignal) {
  const began = Date.now();
  let offset = from, want = pieceBytes, most = pieceBytes, wait = firstPause;
  while (!signal.aborted) {
    try {
      if (offset >= file.size) {
        await call("post", "/v1/imports/{id}/finish", { params: { id }, signal });
        return;
      }
      const raw = await bytesOf(file, offset, Math.min(file.size, offset + want));
      const sentAt = Date.now();
      const piece: Schema<"ImportPiece"> = await call("post", "/v1/imports/{id}/pieces", { params: { id }, query: { offset }, raw, signal, patienceMillis: piecePatience });
      if (Date.now() - sentAt < quickMillis) most = Math.min(pieceBytes, 2 * most);
      want = piece.want_bytes ?? most;
      offset = piece.next_offset;
      wait = firstPause;
      tell(id, { offset, waiting: "", bytesPerSecond: Math.max(0, offset - from) / Math.max(0.001, (Date.now() - began) / 1000) });
    } catch (e) {
      if (signal.aborted) return;
      if (e instanceof ApiError && e.nextOffset !== undefined && e.nextOffset !== offset) {
        offset = e.nextOffset; // another tab has sent it
        continue;
      }
      if (!passes(e)) throw e;
      if (e.status === 0 || e.status === 408) { // the line may be too slow for so much at once
        want = Math.max(leastBytes, Math.floor(want / 2));
        most = Math.min(most, want);
      }
      tell(id, { waiting: e.message });
      await pause(wait, signal);
      wait = Math.min(2 * wait, mostPause);
    }
  }
}

/** startSending sends a file to an import, from where that stands. */
export function startSending(id: string, file: File, from: number) {
  if (files.get(id)?.sent.running) return;
  const stop = new AbortController();
  files.set(id, { stop, sent: { offset: from, size: file.size, bytesPerSecond: 0, waiting: "", running: true } });
  tell(id, {});
  send(id, file, from, stop.signal).then(
    () => tell(id, { running: false, waiting: "" }),
    (e: unknown) => tell(id, { running: false, waiting: "", error: e instanceof Error ? e : new Error(String(e)) }),
  );
}

/** stopSending ends it; the import can go on later. */
export const stopSending = (id: string) => files.get(id)?.stop.abort();

const subscribe = (f: () => void) => { listeners.add(f); return () => { listeners.delete(f); }; };

/** useSent is how far the file of an import is that this tab sends. */
export const useSent = (id: string): Sent | undefined => useSyncExternalStore(subscribe, () => files.get(id)?.sent);

addEventListener("beforeunload", (e) => {
  if ([...files.values()].some((s) => s.sent.running)) e.preventDefault();
});
