import { setClock } from "../format";
import type { components, paths } from "./schema";

// The calls of the dashboard are those of the public API; their types are made of
// api/openapi.json. The browser's cookie says who asks.

export type Schema<N extends keyof components["schemas"]> = components["schemas"][N];

export class ApiError extends Error {
  tookMillis = 0; // until it was known
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly nextOffset?: number,
  ) {
    super(message);
  }
}

/** signedOut is the event of a call that the server has refused because nobody is signed in, or no longer. */
export const signedOut = "sluice-signed-out";

type Method = "get" | "post" | "put" | "delete";
type JsonOf<R> = R extends { content: { "application/json": infer B } } ? B : undefined;
type Answer<O> = O extends { responses: infer R }
  ? R extends { 200: infer A } ? JsonOf<A> : R extends { 201: infer A } ? JsonOf<A> : undefined
  : never;

export type Result<P extends keyof paths, M extends Method> = M extends keyof paths[P] ? Answer<paths[P][M]> : never;

/** QueryNames are the names that the query of a call may have. */
type QueryNames<P extends keyof paths, M extends Method> = M extends keyof paths[P]
  ? paths[P][M] extends { parameters: { query?: infer Q } } ? [NonNullable<Q>] extends [never] ? never : keyof NonNullable<Q> & string : never
  : never;

interface Given<Q extends string = string> {
  params?: Record<string, string | number>;
  query?: Partial<Record<Q, string | number>>;
  empties?: boolean; // empty values of the query are sent, too, and mean something
  body?: unknown;
  raw?: BodyInit; // instead of a body of JSON
  signal?: AbortSignal;
  patienceMillis?: number; // after which no answer is waited for; what is not said is usualPatienceMillis
}

const usualPatienceMillis = 30_000; // longer than the server takes for anything but a look into DNS: 20 s for series, reactions and people, and a second's wait before it

/** unanswered is the error of a call of which no whole answer came; a change may have been made all the same. */
function unanswered(method: Method, late: boolean, patienceMillis: number): ApiError {
  const what = late ? `The server has not answered within ${patienceMillis / 1000} seconds.` : "The server does not answer.";
  const next = method === "get"
    ? late ? "Try again; if it stays so, look how busy it is." : "Look whether it runs and whether you are connected to it, then try again."
    : "This may have been done all the same: look before you do it again.";
  return new ApiError(0, late ? "late" : "away", `${what} ${next}`);
}

/** fetchText makes a request and reads its whole answer, within a time. */
async function fetchText(method: Method, url: string, given: Given): Promise<{ answer: Response; text: string }> {
  const { body, raw, signal, patienceMillis = usualPatienceMillis } = given;
  const stop = new AbortController();
  const end = () => stop.abort();
  let late = false;
  const timer = setTimeout(() => { late = true; end(); }, patienceMillis);
  signal?.addEventListener("abort", end, { once: true });
  if (signal?.aborted) end();
  try {
    const answer = await fetch(url, {
      method: method.toUpperCase(),
      headers: raw !== undefined ? { "Content-Type": "application/octet-stream" } : body === undefined ? {} : { "Content-Type": "application/json" },
      body: raw ?? (body === undefined ? undefined : JSON.stringify(body)),
      signal: stop.signal,
    });
    setClock(Date.parse(answer.headers.get("Date") ?? ""));
    return { answer, text: await answer.text() };
  } catch (e) {
    if (signal?.aborted) throw e;
    throw unanswered(method, late, patienceMillis);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", end);
  }
}

/** call makes a request and returns its answer; it throws an ApiError. */
export async function call<P extends keyof paths, M extends Method>(method: M, path: P, given: Given<QueryNames<P, M>> = {}): Promise<Result<P, M>> {
  const began = performance.now();
  try {
    return await answerTo(method, path, given);
  } catch (e) {
    if (e instanceof ApiError) e.tookMillis = performance.now() - began;
    throw e;
  }
}

async function answerTo<P extends keyof paths, M extends Method>(method: M, path: P, given: Given): Promise<Result<P, M>> {
  let url: string = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(given.params?.[name] ?? "")));
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(given.query ?? {})) {
    if (value !== undefined && (value !== "" || given.empties)) query.set(name, String(value));
  }
  if (query.size > 0) url += `?${query}`;
  const { answer, text } = await fetchText(method, url, given);
  let body: unknown;
  try {
    body = text === "" ? undefined : JSON.parse(text);
  } catch {
    throw new ApiError(answer.status, "unreadable", `The answer cannot be read (status ${answer.status}): it may be of a proxy before Sluice. Try again; if it stays so, look there.`);
  }
  if (answer.status === 401) dispatchEvent(new Event(signedOut));
  if (!answer.ok) {
    const said = body as { error?: { code?: string; message?: string; request_id?: string; next_offset?: number }; message?: string } | undefined;
    const message = said?.error?.message ?? said?.message ?? `The server has refused this with status ${answer.status}`;
    const id = answer.status >= 500 && said?.error?.request_id ? ` (id ${said.error.request_id})` : ""; // by which its log names it
    throw new ApiError(answer.status, said?.error?.code ?? "unknown", message.charAt(0).toUpperCase() + message.slice(1) + id, said?.error?.next_offset);
  }
  return body as Result<P, M>;
}

export const get = <P extends keyof paths>(path: P, given?: Given<QueryNames<P, "get">>) => call("get", path, given);
