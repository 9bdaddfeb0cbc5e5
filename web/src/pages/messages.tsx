import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation, useSearch } from "wouter";
import { call, get, type Schema } from "../api/client";
import { isLong } from "../api/pages";
import { useMay } from "../api/session";
import { count, shortened, when, words } from "../format";
import { Ago, Button, Confirm, Empty, Field, FormDialog, Loaded, More, Panel, PageHead, Refresh, Select, State, Table, Tabs, Text, toneOf, useTyped, type Column } from "../ui";

type Found = Schema<"FoundSend">;
type Life = Schema<"SendLife">;

const tabs: [string, string][] = [["/messages", "All mail"], ["/doubts", "In doubt"]];

/** stepOf is the step of a journey that has sent a mail; no subject is kept. Empty: no journey has. */
const stepOf = (s: Found) => [s.journey, s.step, s.variant].filter(Boolean).join(" / ");

const columns: Column<Found>[] = [
  { header: "To", accessorKey: "to", meta: { wide: true }, cell: (c) => <Link href={`/messages/${c.row.original.message}`}><Text of={c.row.original.to} /></Link> },
  { header: "State", accessorKey: "state", meta: { least: 112 }, cell: (c) => <State of={c.row.original.state} /> },
  { header: "Journey", id: "journey", accessorFn: stepOf, meta: { hideSmall: true }, cell: (c) => <div className="clip short"><Text of={stepOf(c.row.original)} /></div> },
  { header: "Class", accessorKey: "class", meta: { hideSmall: true } },
  { header: "Tags", accessorKey: "tags", meta: { hideSmall: true }, cell: (c) => <div className="clip short muted"><Text of={c.row.original.tags.replaceAll(",", ", ")} /></div> },
  { header: "Why", id: "why", accessorFn: (s) => (s.reason ? words(s.reason) : s.reply ?? ""), meta: { hideSmall: true }, cell: (c) => <div className="clip muted"><Text of={String(c.getValue())} /></div> },
  { header: "Accepted", accessorKey: "accepted", meta: { num: true }, cell: (c) => <Ago time={c.row.original.accepted} /> },
];

const states: [string, string][] = [["", "Any state"], ...["waiting", "sent", "failed", "suppressed", "in_doubt", "cancelled"].map((s): [string, string] => [s, words(s)])];

export function Messages() {
  const asked = new URLSearchParams(useSearch());
  const [, go] = useLocation();
  const to = asked.get("to") ?? "", state = asked.get("state") ?? "";
  const [text, setText] = useTyped(to);
  const ask = (next: { to?: string; state?: string }) => {
    const query = new URLSearchParams(Object.entries({ to, state, ...next }).filter(([, v]) => v !== ""));
    go(query.size > 0 ? `/messages?${query}` : "/messages");
  };
  const query = useInfiniteQuery({
    queryKey: ["sends", to, state],
    initialPageParam: "",
    queryFn: ({ pageParam }) => get("/v1/sends", { query: { to, state, before: pageParam, limit: 50 } }),
    getNextPageParam: (last) => last.next,
  });
  return (
    <>
      <PageHead title="Messages"><Refresh query={query} /></PageHead>
      <Tabs label="Messages" tabs={tabs} current="/messages" />
      <div className="stack">
        <form className="toolbar" role="search" onSubmit={(e) => { e.preventDefault(); ask({ to: text.trim() }); }}>
          <Field label="To the address" type="search" value={text} onChange={(e) => setText(e.target.value)} placeholder="ann@example.com" />
          <Select label="State" value={state} onChange={(s) => ask({ state: s, to: text.trim() })} options={states} />
          <Button kind="primary" type="submit">Find</Button>
        </form>
        <Panel pad={false}>
          <Loaded query={query} rows={8}>
            {(data) => (
              <>
                <Table label="Mails" columns={columns} rows={data.pages.flatMap((p) => p.sends)} keyOf={(s) => s.send} empty={<Empty title="No mail was found">{!to && !state ? "Mail that is handed in is here within a second, when the list is asked for again." : query.hasNextPage ? "None among the newest mail. Look further back." : "Try another address or state."}</Empty>} />
                <More query={query}>Look further back</More>
              </>
            )}
          </Loaded>
        </Panel>
      </div>
    </>
  );
}

/** LifeList is what happened to a mail, with how long each stage took. */
export function LifeList({ life }: { life: Life[] }) {
  return (
    <ol className="life">
      {life.map((l, i) => {
        if (l.left_out) return <li key={i} className="plain"><div className="muted">{count(l.left_out)} more, left out</div></li>;
        const before = life.slice(0, i).findLast((b) => !b.late)?.at;
        const took = l.at && before && !l.late ? (Date.parse(l.at) - Date.parse(before)) / 1000 : undefined;
        return (
          <li key={i} className={l.late ? "plain" : toneOf(l.event ?? l.state ?? "")}>
            <div>
              <div className="rowx between"><strong>{words(l.event ?? l.state ?? "changed")}{l.attempt ? `, attempt ${l.attempt}` : ""}</strong><span className="small muted nowrap">{when(l.at)}{took !== undefined && ` (+${took.toFixed(took < 10 ? 3 : 0)} s)`}</span></div>
              <div className="small muted wrap"><Text of={[l.late && "too late: it changed nothing", l.route && `by ${l.route}`, l.remote, l.code, l.reply, l.reason && words(l.reason), l.due && `next at ${when(l.due)}`].filter(Boolean).join(" · ")} /></div>
            </div>
          </li>
        );
      })}
    </ol>
  );
}

/** firstBy says when a person did something first, and when a machine, if that was before. */
export function firstBy(anybody?: string, person?: string): string {
  if (!anybody) return when(person);
  if (!person) return `${when(anybody)}, by a machine alone`;
  return person === anybody ? `${when(person)}, by a person` : `${when(person)}, by a person; ${when(anybody)}, by a machine`;
}

const atOnce = 50; // sends of a message that are drawn at first: it may have 1,000, each with its life

/** statesOf says how many of some sends are in which state. */
function statesOf(sends: Found[]): string {
  const many = new Map<string, number>();
  for (const s of sends) many.set(s.state, (many.get(s.state) ?? 0) + 1);
  return [...many].map(([state, n]) => `${count(n)} ${words(state)}`).join(", ");
}

/** Cancel stops what has not left yet of a message, and says what became of it. */
function Cancel({ id, told }: { id: string; told: (what: string) => void }) {
  const client = useQueryClient();
  const act = async () => {
    const { cancelled, left, open } = await call("delete", "/v1/messages/{id}", { params: { id } });
    told(`${count(cancelled)} cancelled, ${count(left)} too late${open > 0 ? `, ${count(open)} under way: cancelled if they have to wait once more` : ""}.`);
    await client.invalidateQueries({ queryKey: ["sends"] });
  };
  return (
    <Confirm title="Cancel this message?" action="Cancel the message" act={act} trigger={<Button>Cancel the message</Button>}>
      What has not left yet of it is not sent any more, to any recipient. That cannot be undone.
    </Confirm>
  );
}

function Sends({ sends }: { sends: Found[] }) {
  const [most, setMost] = useState(atOnce);
  return (
    <div className="stack">
      {sends.slice(0, most).map((s) => (
        <Panel key={s.send} title={<Text of={s.to} />} action={<State of={s.state} />}>
          <div className="stack">
            {s.waits_for && s.waits_for.length > 0 && <div className="banner warn"><ul className="grow">{s.waits_for.map((w) => <li key={w}><Text of={w} /></li>)}</ul></div>}
            <LifeList life={s.life as Life[]} />
            <dl className="facts">
              <dt>First opened</dt><dd>{firstBy(s.first_open, s.first_human_open)}</dd>
              <dt>First clicked</dt><dd>{firstBy(s.first_click, s.first_human_click)}</dd>
            </dl>
          </div>
        </Panel>
      ))}
      {sends.length > most && <div><Button onClick={() => setMost(most + atOnce)}>More of {count(sends.length)} recipients</Button></div>}
    </div>
  );
}

export function MessagePage({ id }: { id: string }) {
  const may = useMay("messages:send");
  const [told, setTold] = useState("");
  const query = useQuery({ queryKey: ["sends", "message", id], queryFn: () => get("/v1/sends", { query: { message: id } }), refetchInterval: ({ state }) => ((state.data?.sends.length ?? 0) > atOnce ? 10_000 : 5_000) });
  const waits = query.data?.sends.some((s) => s.state === "waiting");
  return (
    <>
      <PageHead title="Message">{may && waits && <Cancel id={id} told={setTold} />}<Link href="/messages">All mail</Link></PageHead>
      <div className="stack">
        {told && <div className="banner" role="status"><span className="grow">{told}</span></div>}
        <Loaded query={query} rows={6}>
          {({ sends }) => {
            const first = sends[0];
            if (!first) return <Panel><Empty title="There is no such message">One that was just accepted may take a moment.</Empty></Panel>;
            return (
              <div className="cols2">
                <Sends sends={sends} />
                <Panel title="Details">
                  <dl className="facts">
                    <dt>Id</dt><dd className="mono">{id}</dd>
                    <dt>From</dt><dd><Text of={first.from} /></dd>
                    {sends.length > 1 && <><dt>Recipients</dt><dd>{count(sends.length)}: {statesOf(sends)}</dd></>}
                    <dt>Class</dt><dd>{first.class}</dd>
                    <dt>Priority</dt><dd>{first.priority}</dd>
                    <dt>Tags</dt><dd><Text of={first.tags.replaceAll(",", ", ") || "–"} /></dd>
                    {first.journey && <><dt>Journey</dt><dd><Link href={`/journeys/${first.journey}`}><Text of={first.journey} /></Link></dd></>}
                    {first.step && <><dt>Step</dt><dd><Text of={[first.step, first.variant].filter(Boolean).join(" / ")} /></dd></>}
                    {first.user_id && <><dt>Person</dt><dd><Link href={`/people?q=${encodeURIComponent(first.user_id)}`}><Text of={first.user_id} /></Link></dd></>}
                    <dt>Accepted</dt><dd>{when(first.accepted)}</dd>
                  </dl>
                </Panel>
              </div>
            );
          }}
        </Loaded>
      </div>
    </>
  );
}

type Doubt = Schema<"Doubt">;

export function Doubts() {
  const may = useMay("ledger:write");
  const client = useQueryClient();
  const query = useInfiniteQuery({
    queryKey: ["doubts"],
    initialPageParam: "",
    queryFn: ({ pageParam }) => get("/v1/ledger/doubts", { query: { after: pageParam } }),
    getNextPageParam: (last) => last.next,
    refetchInterval: (q) => (isLong(q) ? false : 10_000),
  });
  const decide = async (d: Doubt, values: Record<string, string>) => {
    await call("post", "/v1/ledger/doubts/{send}", { params: { send: d.send }, body: { decision: values.decision, note: values.note } });
    await client.invalidateQueries({ queryKey: ["doubts"] });
  };
  return (
    <>
      <PageHead title="Messages" />
      <Tabs label="Messages" tabs={tabs} current="/doubts" />
      <Loaded query={query} rows={6}>
        {({ pages }) => (pages[0]!.doubts.length === 0 ? <Panel><Empty title="Nothing is in doubt">A mail is in doubt when a connection died before the other side had answered.</Empty></Panel> : (
          <div className="stack">
            {pages.flatMap((p) => p.doubts).map((d) => (
              <Panel key={d.send} title={<Link href={`/messages/${d.send.split(".")[0]}`}><Text of={d.to} /></Link>} action={may && d.undecided && (
                <FormDialog title={`Did the mail to ${shortened(d.to)} arrive?`} action="Decide" submit={(values) => decide(d, values)} trigger={<Button className="small">Decide</Button>}>
                  <label className="field"><span>Decision</span>
                    <select className="input" name="decision" defaultValue="" required><option value="" disabled>Choose</option><option value="sent">It has arrived: it counts as sent</option><option value="again">Send it once more: it may arrive twice</option><option value="give_up">Give it up: it counts as failed</option></select>
                  </label>
                  <Field label="Why" name="note" maxLength={200} pattern="[ -~]*" placeholder="the relay's log has it" />
                </FormDialog>
              )}>
                <div className="stack"><p className="muted">{d.class} mail by {d.route ?? "no route"}{d.undecided ? "" : `, attempted once more ${d.due ? when(d.due) : "soon"}`}</p><LifeList life={d.life} /></div>
              </Panel>
            ))}
            <More query={query} />
          </div>
        ))}
      </Loaded>
    </>
  );
}
