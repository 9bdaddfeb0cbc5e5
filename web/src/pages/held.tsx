import { useQuery } from "@tanstack/react-query";
import { call, type Schema } from "../api/client";
import { now, shortened, words } from "../format";

type Row = Schema<"Suppression">;

export const scopeOf = (s: { scope?: string }) => (s.scope === "all" ? "all mail" : "marketing");

/** held is which mail a suppression holds back. */
export const held = (s: Row) => `${scopeOf(s)}${s.app_id ? ` of the app ${shortened(s.app_id)}` : ""}`;

/** ended reports whether a suppression was for a time, which is over. */
export const ended = (s: Row) => s.ends !== undefined && Date.parse(s.ends) <= now();

/** holds reports whether mail is held back by a suppression now. */
export const holds = (s: Row) => !s.removed && !ended(s);

/** useDomainHold asks whether mail to an address is held back by its domain, and says how; empty: it is not. The list of an entry has those of this entry alone. Of an entry of the address that is stronger the answer tells instead. */
export function useDomainHold(address: string) {
  return useQuery({
    queryKey: ["suppressions", "check", address],
    enabled: address.indexOf("@") > 0,
    queryFn: async () => {
      // What holds transactional mail back holds back all.
      for (const of of ["transactional", "marketing"]) {
        const { results } = await call("post", "/v1/suppressions/check", { body: { addresses: [address], class: of } });
        const found = results[0];
        if (found?.suppressed && found.match !== "address") return `${words(found.reason ?? "")}, ${scopeOf(found)}`;
      }
      return "";
    },
  });
}
