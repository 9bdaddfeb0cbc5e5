import { useQuery } from "@tanstack/react-query";
import { ApiError, call, get, type Schema } from "../api/client";
import { now, shortened, words } from "../format";

type Row = Schema<"Suppression">;

export const scopeOf = (s: { scope?: string }) => (s.scope === "all" ? "all mail" : "marketing");

/** held is which mail a suppression holds back. */
export const held = (s: Row) => `${scopeOf(s)}${s.app_id ? ` of the app ${shortened(s.app_id)}` : ""}`;

/** ended reports whether a suppression was for a time, which is over. */
export const ended = (s: Row) => s.ends !== undefined && Date.parse(s.ends) <= now();

/** holds reports whether mail is held back by a suppression now. */
export const holds = (s: Row) => !s.removed && !ended(s);

const mostAbove = 10; // domains above one that are asked about; more have no names that mail goes to

/** domainsOf are the entries of suppressions by which the domain of an address may be held back: its own, and those that are for all below a domain. */
function domainsOf(address: string): string[] {
  const domain = address.slice(address.lastIndexOf("@") + 1);
  const labels = domain.split(".");
  return domain ? [domain, ...labels.map((_, i) => `.${labels.slice(i).join(".")}`).slice(-mostAbove)] : [];
}

/** ofApps are the suppressions of a domain that hold back the mail of single apps, of which a check for no app says nothing. */
async function ofApps(address: string): Promise<string[]> {
  const lists = await Promise.all(domainsOf(address).map(async (entry) => {
    try {
      return (await get("/v1/suppressions", { query: { entry } })).suppressions;
    } catch (e) {
      if (e instanceof ApiError && e.status === 400) return []; // such a domain is no entry
      throw e;
    }
  }));
  return lists.flat().filter((s) => s.app_id && holds(s)).map((s) => `${words(s.reason)}, ${held(s)}`);
}

/** useDomainHold asks whether mail to an address is held back by its domain, and says how; empty: it is not. The list of an entry has those of this entry alone. Of an entry of the address that is stronger the answer tells instead. */
export function useDomainHold(address: string) {
  return useQuery({
    queryKey: ["suppressions", "check", address],
    enabled: address.indexOf("@") > 0,
    queryFn: async () => {
      const all = await ofApps(address);
      // What holds transactional mail back holds back all.
      for (const of of ["transactional", "marketing"]) {
        const { results } = await call("post", "/v1/suppressions/check", { body: { addresses: [address], class: of } });
        const found = results[0];
        if (!found?.suppressed || found.match === "address") continue;
        all.unshift(`${words(found.reason ?? "")}, ${scopeOf(found)}`);
        break;
      }
      return all.join("; ");
    },
  });
}
