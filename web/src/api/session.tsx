import { useMutation, useQuery, useQueryClient, type QueryClient } from "@tanstack/react-query";
import { createContext, useContext, useEffect, type ReactNode } from "react";
import { call, get, type Schema } from "./client";

export type Session = Schema<"Session">;

const Context = createContext<Session | undefined>(undefined);

const queryKey = ["session"];

// All tabs of a browser have one cookie. So each asks again who is signed in when another
// has signed in or out: it would go on under the name of an account, and change things as
// the other.
const tabs = new BroadcastChannel("sluice-session");

/** tellTabs tells the other tabs that somebody has signed in or out. */
export const tellTabs = () => tabs.postMessage(null);

/** forgetOthers drops what another account has seen in this tab. */
export const forgetOthers = (client: QueryClient) => client.removeQueries({ predicate: (q) => q.queryKey[0] !== queryKey[0] });

export function useSessionQuery() {
  const client = useQueryClient();
  useEffect(() => {
    const again = () => void client.invalidateQueries({ queryKey });
    tabs.addEventListener("message", again);
    return () => tabs.removeEventListener("message", again);
  }, [client]);
  return useQuery({
    queryKey, staleTime: 60_000, refetchOnWindowFocus: "always",
    queryFn: async () => {
      const session = await get("/v1/session");
      if (client.getQueryData<Session>(queryKey)?.id !== session.id) forgetOthers(client);
      return session;
    },
  });
}

export function SessionProvider({ session, children }: { session: Session; children: ReactNode }) {
  return <Context value={session}>{children}</Context>;
}

/** useSession returns who is signed in. */
export function useSession(): Session {
  const session = useContext(Context);
  if (!session) throw new Error("useSession is called where nobody is signed in");
  return session;
}

/** useMay reports whether the signed-in role has a permission; the server decides anyway. */
export function useMay(permission: string): boolean {
  return useSession().permissions.includes(permission);
}

export function useSignOut() {
  return useMutation({
    networkMode: "always",
    mutationFn: () => call("delete", "/v1/session"),
    onSuccess: () => {
      tellTabs();
      location.assign("/sign-in"); // a new page, which knows nothing of this session
    },
  });
}
