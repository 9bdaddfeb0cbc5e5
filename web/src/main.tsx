import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ApiError, signedOut } from "./api/client";
import { isLong } from "./api/pages";
import { App } from "./app";
import { Caught } from "./ui";
import "uplot/dist/uPlot.min.css";
import "./styles.css";

// The one style that a library makes while it runs has the nonce of this page's policy:
// it keeps what is behind a dialog from being scrolled. get-nonce reads it under this name.
const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content;
Object.assign(globalThis, { __webpack_nonce__: nonce });

const slowMillis = 3_000; // of a call that has failed

const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      refetchOnWindowFocus: (query) => !isLong(query),
      // A browser that takes itself for offline may reach a server of its own machine; and
      // what is not asked for would load for ever.
      networkMode: "always",
      // What the server refuses, it refuses again; and what was slow was waited for.
      retry: (failures, error) => failures < 2 && !(error instanceof ApiError && (error.tookMillis > slowMillis || (error.status >= 400 && error.status < 500))),
    },
  },
});

addEventListener(signedOut, () => void client.invalidateQueries({ queryKey: ["session"] }));

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <Caught path=""><App /></Caught>
    </QueryClientProvider>
  </StrictMode>,
);
