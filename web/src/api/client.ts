import type { components, paths } from "./schema";

// The calls of the dashboard are those of the public API; their types are made of
// api/openapi.json. The browser's cookie says who asks.

export type Schema<N extends keyof components["schemas"]> = components["schemas"][N];

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

type Method = "get" | "post" | "put" | "delete";
type JsonOf<R> = R extends { content: { "application/json": infer B } } ? B : undefined;
type Answer<O> = O extends { responses: infer R }
  ? R extends { 200: infer A } ? JsonOf<A> : R extends { 201: infer A } ? JsonOf<A> : undefined
  : never;

export type Result<P extends keyof paths, M extends Method> = M extends keyof paths[P] ? Answer<paths[P][M]> : never;

interface Given {
  params?: Record<string, string | number>;
  query?: Record<string, string | number | undefined>;
  body?: unknown;
  signal?: AbortSignal;
}

/** call makes a request and returns its answer; it throws an ApiError. */
export async function call<P extends keyof paths, M extends Method>(method: M, path: P, given: Given = {}): Promise<Result<P, M>> {
  let url: string = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(given.params?.[name] ?? "")));
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(given.query ?? {})) {
    if (value !== undefined && value !== "") query.set(name, String(value));
  }
  if (query.size > 0) url += `?${query}`;
  let answer: Response;
  try {
    answer = await fetch(url, {
      method: method.toUpperCase(),
      headers: given.body === undefined ? {} : { "Content-Type": "application/json" },
      body: given.body === undefined ? undefined : JSON.stringify(given.body),
      signal: given.signal,
    });
  } catch (e) {
    if (e instanceof DOMException && e.name === "AbortError") throw e;
    throw new ApiError(0, "away", "The server does not answer.");
  }
  const text = await answer.text();
  let body: unknown;
  try {
    body = text === "" ? undefined : JSON.parse(text);
  } catch {
    throw new ApiError(answer.status, "unreadable", `The answer cannot be read (status ${answer.status}).`);
  }
  if (!answer.ok) {
    const said = body as { error?: { code?: string; message?: string }; message?: string } | undefined;
    const message = said?.error?.message ?? said?.message ?? `Status ${answer.status}`;
    throw new ApiError(answer.status, said?.error?.code ?? "unknown", message.charAt(0).toUpperCase() + message.slice(1));
  }
  return body as Result<P, M>;
}

export const get = <P extends keyof paths>(path: P, given?: Given) => call("get", path, given);
