import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "wouter";
import { call, get } from "../api/client";
import type { Overview as Data } from "../api/live";
import { useMay, useSession } from "../api/session";
import { bytes, count, now, shareOf, span, visible, words } from "../format";
import { useLiveState } from "../live";
import { Badge, Bones, Button, Confirm, Panel, PageHead, Problem, Slow, Spark, Table, Text, type Column } from "../ui";
import { FirstMail } from "./first_mail";
import { Stops } from "./stops";

const hours = 24;

/** Figures are what the series say of the last day. */
function Figures() {
  const query = useQuery({ queryKey: ["series", "mail", "day"], queryFn: () => get("/v1/series", { query: { kind: "mail", by: "name", step: "hour" } }), refetchInterval: 15_000 });
  if (query.error && !query.data) return <Problem error={query.error} retry={() => void query.refetch()} />;
  const rows = query.data?.series ?? [];
  const hour = 3_600_000;
  const first = (Math.floor(now() / hour) - hours) * hour;
  const of = (...names: string[]) => {
    const points = new Array<number>(hours + 1).fill(0);
    for (const row of rows) {
      const i = Math.floor((Date.parse(row.time) - first) / hour);
      if (row.name && names.includes(row.name)) points[Math.min(hours, Math.max(0, i))]! += row.count;
    }
    return { points, sum: points.reduce((a, b) => a + b, 0) };
  };
  const sent = of("sent"), delivered = of("delivered"), bounced = of("bounced"), complained = of("complained");
  const figures: [string, typeof sent, string][] = [
    ["Sent", sent, "24 hours and the one that runs"],
    ["Delivered", delivered, delivered.sum > 0 ? shareOf(delivered.sum, sent.sum, "sent") : "as far as receivers say"],
    ["Bounced", bounced, sent.sum > 0 ? `${(100 * bounced.sum / sent.sum).toFixed(1)} for each 100 sent` : "nothing sent yet"],
    ["Complained", complained, shareOf(complained.sum, sent.sum, "sent")],
  ];
  return (
    <>
      {query.isPending && <Slow />}
      {query.error && <Problem error={new Error(`The figures below are old. ${query.error.message}`)} retry={() => void query.refetch()} />}
      <dl className="figures">
        {figures.map(([name, { points, sum }, note]) => (
          <div className="figure" key={name}>
            <dt>{name}</dt>
            <dd>{query.data ? count(sum) : "–"}<div className="small muted">{query.data ? note : "\u00a0"}</div><Spark values={points} label={`${name} by hour`} /></dd>
          </div>
        ))}
      </dl>
    </>
  );
}

function Standing({ o }: { o: Data }) {
  const parts: [string, string][] = [["Redis", o.redis], ["Database", o.database]];
  const waiting = o.sends.reduce((n, s) => n + (s.state === "waiting" ? s.count : 0), 0);
  const disk = o.disk_size_bytes > 0 ? o.disk_free_bytes / o.disk_size_bytes : 1;
  return (
    <Panel title="Health" action={o.ready ? <Badge tone="good">ready</Badge> : <Badge tone="bad">not ready</Badge>}>
      <dl className="facts">
        {parts.map(([name, why]) => <div key={name} style={{ display: "contents" }}><dt>{name}</dt><dd>{why ? <><Badge tone="bad">does not answer</Badge> {visible(why)}</> : <Badge tone="good">answers</Badge>}</dd></div>)}
        <dt>Oldest not stored</dt><dd>{o.lag_seconds > 5 ? <Badge tone="warn">{span(o.lag_seconds)}</Badge> : span(o.lag_seconds)}{o.processes > 1 && <span className="muted"> of what this process stores</span>}</dd>
        <dt>Waiting mail</dt><dd>{count(o.in_doubt < 0 ? o.in_doubt : waiting)} <span className="muted">{o.processes > 1 && "of all processes, "}by the ledger; what is in the lanes is counted in Redis, a moment apart</span></dd>
        <dt>Processes</dt><dd>{o.processes}</dd>
        <dt>Items</dt><dd>{count(o.accepted)} taken in, {count(o.stored)} stored <span className="muted">since this process began</span></dd>
        <dt>In doubt</dt><dd>{o.in_doubt > 0 ? <Link href="/doubts">{count(o.in_doubt)} mails need a decision</Link> : count(o.in_doubt)}</dd>
        <dt>Dead letters</dt><dd><Link href="/dead-letters">{o.dead_letters > 0 ? count(o.dead_letters) : "none"} since this process began</Link></dd>
        <dt>Suppressed</dt><dd>{count(o.suppressed)} addresses and domains</dd>
        <dt>Disk</dt><dd>{o.disk_size_bytes > 0 ? <>{bytes(o.disk_free_bytes)} free {disk < 0.1 && <Badge tone="warn">nearly full</Badge>}</> : "not known"}</dd>
      </dl>
    </Panel>
  );
}

type Lane = Data["lanes"][number];
const laneColumns: Column<Lane>[] = [
  { header: "Lane", accessorKey: "priority", cell: (c) => words(c.row.original.priority) },
  { header: "In Redis", accessorKey: "waiting", meta: { num: true }, cell: (c) => count(c.row.original.waiting) },
  { header: "Oldest", accessorKey: "oldest_seconds", meta: { num: true }, cell: (c) => (c.row.original.oldest_seconds > 0 ? span(c.row.original.oldest_seconds) : "–") },
];

type RouteRow = Data["routes"][number];
const routeColumns: Column<RouteRow>[] = [
  { header: "Route", accessorKey: "route", cell: (c) => <>{c.row.original.route}{c.row.original.why && <div className="small muted"><Text of={c.row.original.why} /></div>}</> },
  { header: "State", id: "state", accessorFn: (r) => r.why ?? r.breaker, cell: (c) => (c.row.original.why ? <Badge tone="bad">down</Badge> : c.row.original.breaker === "closed" ? <Badge tone="good">works</Badge> : <Badge tone="warn">{c.row.original.breaker}</Badge>) },
  { header: "Mails", accessorKey: "mails", meta: { num: true }, cell: (c) => count(c.row.original.mails) },
];

function Brake({ stopped }: { stopped: boolean }) {
  const client = useQueryClient();
  const { name } = useSession();
  if (!useMay("sending:write")) return null;
  const act = async (what: "pause" | "resume") => {
    const body = { by: "class", value: "marketing" };
    if (what === "pause") await call("post", "/v1/sending/pause", { body: { ...body, note: `stopped in the dashboard by ${name}` } });
    else if (!(await call("post", "/v1/sending/resume", { body })).was_stopped) { // somebody has resumed it, or what stops it stops more
      const { stopped } = await get("/v1/sending");
      const whole = stopped.filter((s) => !s.class);
      if (whole.some((s) => s.by === "all") || whole.filter((s) => s.by === "priority").length === 3) throw new Error("It is stopped along with other mail. What is stopped stands on the overview, each with what resumes it.");
    }
    await client.invalidateQueries({ queryKey: ["sending"] });
  };
  return stopped ? (
    <Confirm key="resume" danger={false} title="Resume marketing mail?" action="Resume marketing mail" act={() => act("resume")} trigger={<Button kind="primary">Resume marketing mail</Button>}>
      What waited leaves at once, as fast as the routes take it.
    </Confirm>
  ) : (
    <Confirm key="stop" title="Stop all marketing mail?" action="Stop marketing mail" act={() => act("pause")} trigger={<Button>Stop marketing mail</Button>}>
      Within a second no process sends marketing mail any more. It waits, and nothing is lost. Transactional mail goes on.
    </Confirm>
  );
}

/** SetUp says what to do first where something was never done. What this process has taken in says nothing of that: it may have begun a minute ago. */
function SetUp({ o }: { o: Data }) {
  const mayMakeKeys = useMay("accounts:manage"), mayImport = useMay("imports:write"), maySend = useMay("messages:send");
  const neverMailed = o.sends.every((s) => s.count === 0); // of what was removed from the ledger, too
  const fresh = o.accepted === 0 && o.stored === 0 && neverMailed;
  const journeys = useQuery({ queryKey: ["journeys"], queryFn: () => get("/v1/journeys"), staleTime: 60_000 });
  const counted = useQuery({ queryKey: ["series", "all"], queryFn: () => get("/v1/series", { query: { step: "day" } }), enabled: fresh, staleTime: 60_000 });
  const nothing = fresh && counted.data?.series.length === 0;
  const onlySink = o.routes.length > 0 && o.routes.every((r) => r.route === "sink");
  const cards: [string, string, string, string][] = [];
  if (onlySink) cards.push(["No mail leaves yet", "All of it goes into the built-in mailboxes. To send it, write a route and “sending: on” into sluice.yaml; sluice dev reads none.", "/mailbox", "See the mailbox"]);
  if (nothing && mayMakeKeys) cards.push(["Nothing has come in yet", "Make a key and post events, users or mail with it.", "/settings/keys", "Make a key"]);
  if (nothing && mayImport) cards.push(["Bring in what you have", "A file of people, or of what they did, as CSV or NDJSON.", "/imports", "Import a file"]);
  if (journeys.data?.journeys.length === 0) cards.push(["No journeys yet", "A journey mails people step by step. Write one in YAML, and put it here with: sluice journey apply FILE", "/journeys", "Journeys"]);
  if (cards.length === 0) return null;
  return (
    <div className="stack-s">
      {cards.map(([title, text, href, link]) => (
        <div className="banner" key={title}><div className="grow"><strong className="block">{title}</strong><span className="muted">{text}</span></div>{onlySink && href === "/mailbox" && maySend && neverMailed && <FirstMail />}<Link href={href}>{link}</Link></div>
      ))}
    </div>
  );
}

export function Overview() {
  const { overview: o, error, stale } = useLiveState();
  return (
    <>
      <PageHead title="Overview">{o && <Brake stopped={o.marketing_stopped} />}</PageHead>
      <div className="stack">
        {(error || stale) && <div className="banner bad" role="alert"><span className="grow">{visible(error ?? "The server has not answered for 10 seconds.")}{o && " What stands below is old."}</span></div>}
        {!o && !error && <Panel pad={false}><Bones rows={6} /></Panel>}
        {o && (
          <>
            {o.marketing_stopped && <div className="banner warn" role="status"><strong className="grow">Marketing mail is stopped. It waits until somebody resumes it.</strong></div>}
            {!o.ready && <div className="banner bad" role="alert"><div className="grow"><strong className="block">Not ready</strong><ul>{o.reasons.map((r) => <li key={r}>{visible(r)}</li>)}</ul></div></div>}
            {o.warnings.length > 0 && <div className="banner warn" role="status"><div className="grow"><strong className="block">Warnings</strong><ul>{o.warnings.map((w) => <li key={w}>{visible(w)}</li>)}</ul></div></div>}
            <Stops />
            <Figures />
            <SetUp o={o} />
            <div className="cols2">
              <Standing o={o} />
              <div className="stack">
                <Panel title="Lanes" action={<span className="muted small">{count(o.later)} for later{o.processes > 1 && ", of this process alone"}</span>} pad={false}>
                  <Table label="Lanes" columns={laneColumns} rows={o.lanes} keyOf={(l) => l.priority} empty={<p className="panel-body muted">This process does not send.</p>} />
                </Panel>
                <Panel title="Routes" action={<span className="muted small">Mails since this process began</span>} pad={false}>
                  <Table label="Routes" columns={routeColumns} rows={o.routes} keyOf={(r) => r.route} empty={<p className="panel-body muted">This process does not send.</p>} />
                </Panel>
              </div>
            </div>
          </>
        )}
      </div>
    </>
  );
}
