import { useQuery } from "@tanstack/react-query";
import { Link, useLocation, useSearch } from "wouter";
import { get, type Schema } from "../api/client";
import { count, now, share, shareOf, when } from "../format";
import { Empty, Loaded, Panel, PageHead, Problem, Select, Slow, Table, Text, type Column } from "../ui";

type Counts = Schema<"ReactionCounts">;

// What is told apart, with what a row is then looked into by.
const kinds: Record<string, { text: string; by: string; name: (c: Counts) => string | undefined; into?: string }> = {
  campaign: { text: "Campaign", by: "campaign", name: (c) => c.campaign, into: "link" },
  journey: { text: "Journey", by: "journey", name: (c) => c.journey, into: "step" },
  step: { text: "Step", by: "journey,step,variant", name: (c) => [c.journey, c.step, c.variant].filter(Boolean).join(" / ") },
  link: { text: "Link", by: "link", name: (c) => (c.link ? `link ${c.link}` : "no link") },
  day: { text: "Day (UTC)", by: "day", name: (c) => c.time?.slice(0, 10) },
};
const days: [string, string][] = [["7", "7 days"], ["30", "30 days"], ["90", "90 days"]];

const dayMillis = 86_400_000;

const bounced = (c: Counts) => c.bounced.hard + c.bounced.soft + c.bounced.block + c.bounced.other;

/** Of is a count with its share; beside it what of it anybody did, machines included. */
function Of({ n, of, raw }: { n: number; of: number; raw?: number }) {
  return <span title={raw === undefined ? undefined : `${count(raw)} with machines`}>{count(n)} <span className="muted">{share(n, of)}</span></span>;
}

function columns(kind: string, link: (c: Counts) => string | undefined): Column<Counts>[] {
  const { text, name } = kinds[kind]!;
  const num = (header: string, value: (c: Counts) => number, of?: (c: Counts) => number, raw?: (c: Counts) => number, hideSmall = true): Column<Counts> => ({
    header, id: header, accessorFn: value, meta: { num: true, hideSmall },
    cell: ({ row: { original: c } }) => (of ? <Of n={value(c)} of={of(c)} raw={raw?.(c)} /> : count(value(c))),
  });
  const delivered = (c: Counts) => c.delivered;
  return [
    {
      header: text, id: "name", accessorFn: (c) => name(c) ?? "",
      cell: ({ row: { original: c } }) => {
        const shown = name(c) ? <Text of={name(c)!} /> : <span className="muted">none</span>;
        const to = link(c);
        return to ? <Link href={to}>{shown}</Link> : shown;
      },
    },
    num("Sent", (c) => c.sent, undefined, undefined, false),
    num("Opened", (c) => c.human.opened, delivered, (c) => c.raw.opened, false),
    num("Clicked", (c) => c.human.clicked, delivered, (c) => c.raw.clicked, false),
    num("Bounced", bounced, (c) => c.sent + c.refused),
    num("Complaints", (c) => c.complained, delivered),
    num("Unsubscribed", (c) => c.unsubscribed, delivered),
  ];
}

/** Sum is the whole of what is asked for. */
function Sum({ c, answers }: { c?: Counts; answers?: number }) {
  const figures: [string, number | undefined, string][] = [
    ["Sent", c?.sent, c ? `${count(c.delivered)} delivered, as far as is known` : ""],
    ["Opened", c?.human.opened, c ? `${shareOf(c.human.opened, c.delivered, "delivered")}; ${count(c.raw.opened)} with machines` : ""],
    ["Clicked", c?.human.clicked, c ? `${shareOf(c.human.clicked, c.delivered, "delivered")}; ${count(c.raw.clicked)} with machines` : ""],
    ["Bounced", c && bounced(c), c ? `${shareOf(bounced(c), c.sent + c.refused, "sent")}: ${count(c.bounced.hard)} hard, ${count(c.bounced.soft)} soft, ${count(c.bounced.block)} blocked` : ""],
    ["Complaints", c?.complained, c ? shareOf(c.complained, c.delivered, "delivered") : ""],
    ["Unsubscribed", c?.unsubscribed, c ? shareOf(c.unsubscribed, c.delivered, "delivered") : ""],
    ["Automatic replies", answers, "to all mail, such as out of office"],
  ];
  return <dl className="figures">{figures.map(([name, n, note]) => <div className="figure" key={name}><dt>{name}</dt><dd>{n === undefined ? "–" : count(n)}<div className="small muted">{note}</div></dd></div>)}</dl>;
}

export function Reactions() {
  const asked = new URLSearchParams(useSearch());
  const [, go] = useLocation();
  const kind = Object.hasOwn(kinds, asked.get("by") ?? "") ? asked.get("by")! : "campaign";
  const length = days.some(([d]) => d === asked.get("days")) ? asked.get("days")! : "30";
  const only = ["campaign", "journey"].filter((name) => asked.has(name)).map((name): [string, string] => [name, asked.get(name)!]);
  const at = (by: string, more: [string, string][], within = length) => `/reactions?${new URLSearchParams([["by", by], ["days", within], ...more])}`;
  // In whole days of UTC, by which days are counted: so figures and rows are of one time.
  const from = new Date(Math.floor(now() / dayMillis) * dayMillis - Number(length) * dayMillis).toISOString();
  const filter = Object.fromEntries(only);
  const ask = (by: string) => ({ queryKey: ["reactions", by, length, filter], refetchInterval: 30_000, queryFn: () => get("/v1/reactions", { query: { by, from, ...filter }, empties: true }) });
  const sum = useQuery(ask("none"));
  const query = useQuery(ask(kinds[kind]!.by));
  const answers = useQuery({ queryKey: ["series", "answers", length], refetchInterval: 30_000, queryFn: () => get("/v1/series", { query: { kind: "mail", name: "autoresponded", step: "day", from } }) });
  const into = kinds[kind]!.into;
  const link = (c: Counts) => {
    const name = kinds[kind]!.name(c);
    return into && name ? at(into, [[kind, name]]) : undefined;
  };
  return (
    <>
      <PageHead title="Reactions" />
      <div className="stack">
        <div className="toolbar">
          <Select label="Group by" value={kind} onChange={(by) => go(at(by, only))} options={Object.entries(kinds).map(([k, { text }]) => [k, text.charAt(0).toLowerCase() + text.slice(1)])} />
          <Select label="Time" value={length} onChange={(d) => go(at(kind, only, d))} options={days} />
        </div>
        {only.map(([name, value]) => (
          <div className="banner" key={name}><span className="grow">Only of the {name} <strong>{value ? <Text of={value} /> : "none"}</strong></span><Link href={at(name, only.filter(([n]) => n !== name))}>Show all</Link></div>
        ))}
        {sum.error && !sum.data ? <Problem error={sum.error} retry={() => void sum.refetch()} /> : (
          <>
            {sum.isPending && <Slow />}
            {(sum.error ?? answers.error) && <Problem error={new Error(`Not all figures below are known, or they are old. ${(sum.error ?? answers.error)!.message}`)} retry={() => { void sum.refetch(); void answers.refetch(); }} />}
            <Sum c={sum.data && (sum.data.reactions[0] ?? none)} answers={answers.data?.series.reduce((n, row) => n + row.count, 0)} />
          </>
        )}
        <Panel pad={false} title={`Since ${when(from)}`} action={<span className="small muted">Opens and clicks are those of people, as far as is known. Shares are of what was delivered, of bounces of what was sent</span>}>
          <Loaded query={query} rows={8}>
            {({ reactions }) => (
              <Table label="Reactions" columns={columns(kind, link)} rows={reactions} keyOf={(c) => [c.time, c.campaign, c.journey, c.step, c.variant, c.link].join("\n")}
                empty={<Empty title="Nothing was sent in this time">Choose a longer time. Opens and clicks are counted where tracking is set up: the setting track.url.</Empty>} />
            )}
          </Loaded>
        </Panel>
      </div>
    </>
  );
}

const nobody = { opened: 0, opens: 0, clicked: 0, clicks: 0, open_rate: null, click_rate: null, click_to_open_rate: null };
const none: Counts = { sent: 0, refused: 0, delivered: 0, confirmed: 0, bounced: { hard: 0, soft: 0, block: 0, other: 0 }, complained: 0, unsubscribed: 0, bounce_rate: null, complaint_rate: null, unsubscribe_rate: null, raw: nobody, human: nobody };
