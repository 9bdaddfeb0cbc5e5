import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation, useSearch } from "wouter";
import { ApiError, call, get, type Schema } from "../api/client";
import { useMay } from "../api/session";
import { count, shortened, when, words } from "../format";
import { Badge, Button, Confirm, Empty, Field, Loaded, Long, Panel, PageHead, State, Table, Text, useTyped, type Column } from "../ui";
import { holds, scopeOf, useDomainHold } from "./held";
import { Timeline } from "./timeline";

type User = Schema<"BrazeUser">;
type Found = Schema<"FoundUser">;

const fullName = (u: { first_name?: string | null; last_name?: string | null }) => [u.first_name, u.last_name].filter(Boolean).join(" ");

const columns: Column<Found>[] = [
  { header: "Person", accessorFn: (u) => u.external_id ?? u.braze_id, cell: (c) => <Link href={`/people/${c.row.original.braze_id}`}><Text of={c.row.original.external_id ?? c.row.original.braze_id} /></Link> },
  { header: "Name", accessorFn: fullName, cell: (c) => (fullName(c.row.original) ? <Text of={fullName(c.row.original)} /> : <span className="muted">–</span>) },
  { header: "Address", accessorFn: (u) => u.email ?? "", cell: (c) => c.row.original.email ? <Text of={c.row.original.email} /> : <span className="muted">none</span> },
  { header: "Mail", accessorKey: "email_subscribe", meta: { hideSmall: true }, cell: (c) => <State of={c.row.original.email_subscribe} /> },
  { header: "Found by", accessorKey: "found_by", meta: { hideSmall: true }, cell: (c) => <span className="muted">{foundBy[c.row.original.found_by]}</span> },
];

const foundBy: Record<Found["found_by"], string> = { braze_id: "our id", external_id: "id", alias: "alias", email: "address" };

export function People() {
  const search = useSearch();
  const [, go] = useLocation();
  const asked = new URLSearchParams(search).get("q") ?? "";
  const [text, setText] = useTyped(asked);
  const query = useQuery({ queryKey: ["people", asked], queryFn: () => get("/v1/users", { query: { q: asked } }), enabled: asked !== "" });
  return (
    <>
      <PageHead title="People" />
      <div className="stack">
        <form className="toolbar" role="search" onSubmit={(e) => { e.preventDefault(); go(`/people?q=${encodeURIComponent(text.trim())}`); }}>
          <Field label="Id or address" type="search" value={text} onChange={(e) => setText(e.target.value)} placeholder="ann@example.com" autoFocus />
          <Button kind="primary" type="submit">Find</Button>
        </form>
        <Panel pad={false}>
          {asked === "" ? <Empty title="Find a person">By the id that your programs use or an address, or how one begins; by an alias, written as label:name; or by our own id.</Empty> : (
            <Loaded query={query}>
              {({ users, more }) => (
                <>
                  <Table label="People" columns={columns} rows={users} keyOf={(u) => u.braze_id} empty={<Empty title="Nobody was found">Write an id, an address, or how one begins: no text is found in the middle of another. Ids and aliases are case-sensitive, addresses are not.</Empty>} />
                  {more && <p className="panel-body muted">There are more than are shown. Write more of the id or address to find them.</p>}
                </>
              )}
            </Loaded>
          )}
        </Panel>
      </div>
    </>
  );
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Suppressed is what holds mail to an address back. */
function Suppressed({ address }: { address: string }) {
  const query = useQuery({ queryKey: ["suppressions", "of", address], queryFn: () => get("/v1/suppressions", { query: { entry: address } }) });
  const domain = useDomainHold(address);
  const error = query.error ?? domain.error;
  if (error) return <span className="muted">not known: <Text of={error.message} /></span>;
  if (query.data === undefined || domain.isLoading) return <>…</>;
  const own = query.data.suppressions.filter(holds);
  if (own.length === 0 && !domain.data) return <Badge tone="good">no</Badge>;
  return (
    <span className="rowx">
      {own.map((s) => <span key={`${s.reason} ${s.scope} ${s.app_id}`}><Badge tone="warn">{words(s.reason)}, {scopeOf(s)}</Badge>{s.app_id && <> of the app <Text of={s.app_id} /></>}</span>)}
      {domain.data && <Badge tone="warn">by its domain: {domain.data}</Badge>}
      <Link href={`/suppressions?entry=${encodeURIComponent(address)}`}>Suppressions</Link>
    </span>
  );
}

function Consent({ user }: { user: User }) {
  const may = useMay("suppressions:read");
  const address = user.email ?? "";
  return (
    <dl className="facts">
      <dt>Marketing mail</dt><dd><State of={user.email_subscribe ?? "subscribed"} /></dd>
      <dt>Suppressed</dt><dd>{address === "" ? <span className="muted">no address</span> : may ? <Suppressed address={address} /> : <span className="muted">not shown to your role</span>}</dd>
    </dl>
  );
}

function Where({ id }: { id: string }) {
  const query = useQuery({ queryKey: ["people", id, "journeys"], queryFn: () => get("/v1/users/{id}/journeys", { params: { id }, query: { by: "braze_id" } }) });
  return (
    <Loaded query={query} rows={2}>
      {(data) => (data.journeys.length === 0 ? <p className="panel-body muted">In no journey.</p> : (
        <ul className="panel-body stack-s">
          {data.journeys.map((j) => <li key={j.journey} className="rowx between"><Link href={`/journeys/${j.journey}`}><Text of={j.name} /></Link><span className="rowx small muted"><Text of={j.step_name ?? j.step} /><State of={j.state} /></span></li>)}
        </ul>
      ))}
    </Loaded>
  );
}

/** Erase asks whether a person is to be forgotten, and has it done. */
function Erase({ id, name, done }: { id: string; name: string; done: () => void }) {
  const act = async () => {
    // An id of who was merged into another person erases nobody.
    const { users } = await call("post", "/users/export/ids", { body: { braze_id: id } });
    if (users[0] && users[0].braze_id !== id) throw new ApiError(409, "conflict", "This person was merged into another one meanwhile. Open the person again.");
    const { errors = [] } = await call("post", "/users/delete", { body: { braze_ids: [id] } });
    if (errors.length > 0) throw new ApiError(400, "refused", errors.join(" "));
    done();
  };
  return (
    <Confirm title={`Erase ${shortened(name)}?`} action="Erase the person" act={act} trigger={<Button>Erase</Button>}>
      <p>The profile goes within seconds, and mail that waits for the person is cancelled. Within about two hours id and address are taken out of events, of the record of mail, of dead letters and of files.</p>
      <p>What backups have stays there. It cannot be undone.</p>
    </Confirm>
  );
}

/** save has the browser keep a text as a file. */
function save(name: string, text: string) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the browser reads it meanwhile
}

/** Person shows who has an id. Of who was merged into another person it is that one. */
export function Person({ id: asked }: { id: string }) {
  const mayErase = useMay("users.delete");
  const [erased, setErased] = useState(false);
  const query = useQuery({
    queryKey: ["people", "one", asked],
    queryFn: async () => {
      const { users } = await call("post", "/users/export/ids", { body: { braze_id: asked } });
      if (!users[0]) throw new ApiError(404, "not_found", "There is no such person, or no longer.");
      return users[0];
    },
  });
  if (erased) return <><PageHead title="Person"><Link href="/people">All people</Link></PageHead><Panel><Empty title="The person is erased">What is still shown elsewhere goes within about two hours.</Empty></Panel></>;
  return (
    <>
      {!query.data && <PageHead title="Person"><Link href="/people">All people</Link></PageHead>}
      <Loaded query={query} rows={8}>
        {(user) => {
          const id = user.braze_id ?? asked;
          const facts: [string, unknown][] = [["Id", user.external_id], ["Our id", user.braze_id], ["Address", user.email], ["Phone", user.phone], ["Language", user.language], ["Country", user.country], ["Time zone", user.time_zone], ["Known since", user.created_at && when(user.created_at)]];
          const custom = Object.entries(user.custom_attributes ?? {});
          const name = fullName(user) || user.external_id || user.email || id;
          return (
            <>
              <PageHead title={<Text of={name} />}>{mayErase && <Erase id={id} name={name} done={() => setErased(true)} />}<Link href="/people">All people</Link></PageHead>
              <div className="cols2">
                <Timeline id={id} />
                <div className="stack">
                  <Panel title="Profile" action={<Button className="small" onClick={() => save(`${id}.json`, JSON.stringify(user, null, 2))}>Download as JSON</Button>}><dl className="facts">{facts.filter(([, v]) => v).map(([k, v]) => <div key={k} style={{ display: "contents" }}><dt>{k}</dt><dd><Text of={shown(v)} /></dd></div>)}</dl></Panel>
                  <Panel title="Consent"><Consent user={user} /></Panel>
                  <Panel title="Journeys" pad={false}><Where id={id} /></Panel>
                  <Panel title="Attributes">{custom.length === 0 ? <p className="muted">No custom attributes.</p> : <dl className="facts">{custom.map(([k, v]) => <div key={k} style={{ display: "contents" }}><dt><Text of={k} /></dt><dd><Long of={shown(v)} name={k} /></dd></div>)}</dl>}</Panel>
                  {(user.purchases ?? []).length > 0 && <Panel title="Purchases"><dl className="facts">{user.purchases!.map((p) => <div key={p.name} style={{ display: "contents" }}><dt><Text of={p.name ?? ""} /></dt><dd>{count(p.count)}, last {when(p.last)}</dd></div>)}</dl></Panel>}
                </div>
              </div>
            </>
          );
        }}
      </Loaded>
    </>
  );
}
