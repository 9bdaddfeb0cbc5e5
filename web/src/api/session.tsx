import { useMutation, useQuery } from "@tanstack/react-query";
import { createContext, useContext, type ReactNode } from "react";
import { call, get, type Schema } from "./client";

export type Session = Schema<"Session">;

const Context = createContext<Session | undefined>(undefined);

export const useSessionQuery = () => useQuery({ queryKey: ["session"], queryFn: () => get("/v1/session"), staleTime: 60_000, refetchOnWindowFocus: true });

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
    onSuccess: () => location.assign("/sign-in"), // a new page, which knows nothing of this session
  });
}
