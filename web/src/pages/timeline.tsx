import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useLocation, useSearch } from "wouter";
import { get, type Schema } from "../api/client";
import { when, words } from "../format";
import { Button, Empty, Loaded, Panel, Select, State, Text, toneOf } from "../ui";
import { firstBy } from "./messages";

type Entry = Schema<"TimelineEntry">;

const kinds: [string, string][] = [["", "Everything"], ["event", "Events"], ["mail", "Mails"], ["journey", "Journeys"], ["change", "Changes"], ["consent", "Consent"]];

interface Line { title: string; href?: string; state?: string; notes: (string | false | undefined)[] }

function properties(of: unknown): string {
  if (typeof of !== "object" || of === null) return "";
  return Object.entries(of).map(([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ");
}

/** lineOf says what an entry is: its title, a state with its colour, and what is said beside. */
function lineOf(e: Entry): Line {
  if (e.event) return { title: e.event.kind === "purchase" ? `Bought ${e.event.name}` : e.event.name, notes: [e.event.app_id, properties(e.event.properties)] };
  if (e.mail) {
    const m = e.mail;
    return {
      title: `Mail to ${m.to}`, href: `/messages/${m.message}`, state: m.state,
      notes: [m.tags.replaceAll(",", ", "), m.journey && `journey ${m.journey}`, (m.first_open ?? m.first_human_open) && `opened ${firstBy(m.first_open, m.first_human_open)}`, (m.first_click ?? m.first_human_click) && `clicked ${firstBy(m.first_click, m.first_human_click)}`, m.reason && words(m.reason)],
    };
  }
  if (e.journey) {
    const j = e.journey;
    return { title: `Entered ${j.name}`, href: `/journeys/${j.journey}`, state: j.state, notes: [j.occurrence > 0 && `entry ${j.occurrence + 1}`, `${j.state === "inside" ? "now" : "last"} at ${j.step_name ?? j.step}`, j.due && `until ${when(j.due)}`] };
  }
  if (e.group) return { title: `Group ${e.group.id}`, state: e.group.state, notes: [] };
  if (e.suppression) {
    const s = e.suppression;
    return { title: s.removed ? `Suppression removed: ${words(s.reason)}` : `Suppressed: ${words(s.reason)}`, state: s.removed ? undefined : "suppressed", notes: [s.scope === "all" ? "all mail" : "marketing mail", s.app_id, `by ${s.source}`] };
  }
  return { title: e.what === "created" ? "Became known" : words(e.what), notes: [] };
}

function EntryLine({ entry }: { entry: Entry }) {
  const { title, href, state, notes } = lineOf(entry);
  const said = notes.filter(Boolean).join(" · ");
  return (
    <li className={toneOf(state ?? "")}>
      <div>
        <div className="rowx between"><strong className="wrap">{href ? <Link href={href}><Text of={title} /></Link> : <Text of={title} />}</strong><span className="muted small nowrap">{when(entry.time)}</span></div>
        {(state || said) && <div className="rowx small muted">{state && <State of={state} />}<Text of={said} /></div>}
      </div>
    </li>
  );
}

/** Timeline is what is known of when, the newest first, with a filter by kind. */
export function Timeline({ id }: { id: string }) {
  const kind = new URLSearchParams(useSearch()).get("kind") ?? "";
  const [, go] = useLocation();
  const show = (next: string) => go(next ? `/people/${id}?kind=${next}` : `/people/${id}`, { replace: true });
  const query = useInfiniteQuery({
    queryKey: ["people", id, "timeline", kind],
    initialPageParam: "",
    queryFn: ({ pageParam }) => get("/v1/users/{id}/timeline", { params: { id }, query: { by: "braze_id", kinds: kind, before: pageParam } }),
    getNextPageParam: (last) => last.next,
  });
  return (
    <Panel title="What happened" pad={false} action={<Select label="Show" value={kind} onChange={show} options={kinds} />}>
      <Loaded query={query}>
        {({ pages }) => {
          const entries = pages.flatMap((p) => p.entries);
          const looked = pages.at(-1)?.looked_to;
          return (
            <>
              {entries.length === 0 && !query.hasNextPage && <Empty title="Nothing is known yet">Events, mails, journeys and consent appear here, the newest first.</Empty>}
              {entries.length > 0 && <ol className="life panel-body" aria-label="What happened">{entries.map((e, i) => <EntryLine key={i} entry={e} />)}</ol>}
              {query.hasNextPage && (
                <div className="panel-body rowx">
                  <Button onClick={() => void query.fetchNextPage()} busy={query.isFetchingNextPage}>{query.isFetchingNextPage ? "Looking" : "Look further back"}</Button>
                  {looked && <span className="small muted">Events were looked for back to {when(looked)}</span>}
                </div>
              )}
            </>
          );
        }}
      </Loaded>
    </Panel>
  );
}
