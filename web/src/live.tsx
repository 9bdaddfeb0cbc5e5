import { createContext, useContext, useEffect, type ReactNode } from "react";
import { useLive } from "./api/live";

const Context = createContext<ReturnType<typeof useLive>>({ stale: false });

/** LiveProvider asks once for all parts of the page. */
export function LiveProvider({ children, onSignedOut }: { children: ReactNode; onSignedOut: () => void }) {
  const live = useLive();
  const { signedOut } = live;
  useEffect(() => {
    if (signedOut) onSignedOut();
  }, [signedOut, onSignedOut]);
  return <Context value={live}>{children}</Context>;
}

export const useLiveState = () => useContext(Context);
