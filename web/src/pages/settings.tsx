import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { Redirect } from "wouter";
import { ApiError, call, get, type Schema } from "../api/client";
import { useSession } from "../api/session";
import { count, shortened, when } from "../format";
import { Badge, Button, Confirm, Details, Empty, Field, FormDialog, Loaded, More, Panel, PageHead, Table, Tabs, Text, type Column } from "../ui";
import { Routes } from "./routes";

// The parts of the settings, each with its permission.
const parts: Record<string, { text: string; permission: string; show: () => ReactNode }> = {
  accounts: { text: "Accounts", permission: "accounts:manage", show: () => <Accounts /> },
  keys: { text: "API keys", permission: "accounts:manage", show: () => <Keys /> },
  groups: { text: "Groups", permission: "groups:write", show: () => <Groups /> },
  routes: { text: "Routes and domains", permission: "accounts:manage", show: () => <Routes /> },
  audit: { text: "Audit log", permission: "accounts:manage", show: () => <Audit /> },
};

/** RoleSelect also says which role was shown when the form was opened: another admin may give another one meanwhile, which stays unless one is chosen here. */
function RoleSelect({ value = "viewer" }: { value?: string }) {
  const [was] = useState(value);
  return (
    <label className="field"><span>Role</span>
      <input type="hidden" name="was" value={was} />
      <select className="input" name="role" defaultValue={value}>
        <option value="viewer">viewer: sees all but accounts and keys</option>
        <option value="editor">editor: also changes content, people and mail</option>
        <option value="admin">admin: also accounts and keys</option>
      </select>
    </label>
  );
}

function Accounts() {
  const me = useSession();
  const client = useQueryClient();
  const query = useQuery({ queryKey: ["accounts"], queryFn: () => get("/v1/accounts") });
  const again = () => client.invalidateQueries({ queryKey: ["accounts"] });
  const columns: Column<Schema<"Account">>[] = [
    { header: "Name", accessorKey: "name", meta: { wide: true }, cell: (c) => <><Text of={c.row.original.name} /> {c.row.original.id === me.id && <span className="muted">(you)</span>}</> },
    { header: "Role", accessorKey: "role" },
    { header: "Made", accessorKey: "created", meta: { hideSmall: true }, cell: (c) => <span className="muted nowrap">{when(c.row.original.created)}</span> },
    {
      header: () => <span className="sr">Actions</span>, id: "actions", enableSorting: false, meta: { num: true },
      cell: (c) => {
        const a = c.row.original;
        return (
          <div className="rowx" style={{ justifyContent: "flex-end" }}>
            <FormDialog title={`Change ${shortened(a.name)}`} action="Save" trigger={<Button className="small">Change</Button>}
              submit={async (v) => {
                const body = { ...(v.role !== v.was && { role: v.role }), ...(v.password && { password: v.password }) };
                if (Object.keys(body).length > 0) await call("put", "/v1/accounts/{id}", { params: { id: a.id }, body });
                await again();
              }}>
              <RoleSelect value={a.role} />
              <Field label="New password" name="password" type="password" autoComplete="new-password" minLength={12} hint="Empty: the old one stays. A new one signs the account out." />
            </FormDialog>
            <Confirm title={`Sign ${shortened(a.name)} out everywhere?`} action="Sign out" trigger={<Button className="small">Sign out</Button>} act={() => call("delete", "/v1/accounts/{id}/sessions", { params: { id: a.id } })}>All its sessions end within 5 seconds.</Confirm>
            {a.id !== me.id && <Confirm title={`Remove ${shortened(a.name)}?`} action="Remove" trigger={<Button className="small">Remove</Button>} act={async () => { await call("delete", "/v1/accounts/{id}", { params: { id: a.id } }); await again(); }}>What it has changed stays in the audit log.</Confirm>}
          </div>
        );
      },
    },
  ];
  return (
    <Panel title="Accounts" pad={false} action={
      <FormDialog title="Make an account" action="Make it" trigger={<Button className="small" kind="primary">Make an account</Button>} submit={async ({ name, role, password }) => { await call("post", "/v1/accounts", { body: { name, role, password } }); await again(); }}>
        <Field label="Name" name="name" placeholder="bob@example.com" required autoComplete="off" />
        <RoleSelect />
        <Field label="Password" name="password" type="password" autoComplete="new-password" minLength={12} required hint="At least 12 characters. Hand it over yourself: no mail is sent." />
      </FormDialog>
    }>
      <Loaded query={query}>{({ accounts }) => <Table label="Accounts" columns={columns} rows={accounts} keyOf={(a) => a.id} empty={<Empty title="There are none" />} />}</Loaded>
    </Panel>
  );
}

/** Permissions are what a key may do: the beginning, and in a dialog all. */
function Permissions({ of: { name, id, permissions } }: { of: Schema<"APIKey"> }) {
  if (permissions.length === 0) return <span className="muted">nothing</span>;
  return (
    <Details title={`What ${shortened(name || id)} may do`} trigger={<button type="button" className="as-link clip">{permissions.join(", ")}</button>}>
      <ul className="stack-s">{permissions.map((p) => <li key={p} className="mono">{p}</li>)}</ul>
    </Details>
  );
}

/** FirstUse is what to do with a new key: the shortest call of each thing that it may do. */
function FirstUse({ of, may }: { of: string; may: string }) {
  const asked = may.split(",").map((p) => p.trim());
  const call = (path: string, body: object) => `curl ${location.origin}${path} -H "Authorization: Bearer ${of}" -d '${JSON.stringify(body)}'`;
  const uses: [string, string, string][] = [
    ["events:write", "An event:", call("/v1/events", { event: "bought", user_id: "u7", price: 12.5 })],
    ["messages:send", "A mail:", call("/v1/messages", { from: "shop@example.com", to: "ann@example.com", subject: "Order 7", text: "On its way" })],
  ];
  return <>{uses.filter(([p]) => asked.includes(p) || asked.includes("all")).map(([p, title, text]) => <div key={p}><p className="muted">{title}</p><pre tabIndex={0}>{text}</pre></div>)}</>;
}

function Keys() {
  const client = useQueryClient();
  const query = useQuery({ queryKey: ["keys"], queryFn: () => get("/v1/keys") });
  const again = () => client.invalidateQueries({ queryKey: ["keys"] });
  const columns: Column<Schema<"APIKey">>[] = [
    { header: "Name", accessorKey: "name", cell: (c) => (c.row.original.name ? <Text of={c.row.original.name} /> : <span className="muted">none</span>) },
    { header: "Id", accessorKey: "id", meta: { hideSmall: true }, cell: (c) => <span className="mono">{c.row.original.id}</span> },
    { header: "May", id: "may", accessorFn: (k) => k.permissions.length, cell: (c) => <Permissions of={c.row.original} /> },
    { header: "Made", accessorKey: "created", meta: { hideSmall: true }, cell: (c) => <span className="muted nowrap">{when(c.row.original.created)}</span> },
    {
      header: () => <span className="sr">Actions</span>, id: "actions", enableSorting: false, meta: { num: true },
      cell: (c) => (c.row.original.revoked ? <Badge>revoked</Badge> : <Confirm title={`Revoke ${shortened(c.row.original.name || c.row.original.id)}?`} action="Revoke" trigger={<Button className="small">Revoke</Button>} act={async () => { await call("delete", "/v1/keys/{id}", { params: { id: c.row.original.id } }); await again(); }}>Programs that use it are refused within 5 seconds, for good.</Confirm>),
    },
  ];
  return (
    <Panel title="API keys" pad={false} action={
      <FormDialog title="Make a key" action="Make it" trigger={<Button className="small" kind="primary">Make a key</Button>}
        submit={async (v) => {
          const made = await call("post", "/v1/keys", { body: v });
          await again();
          return <div className="stack-s"><p>This key is not shown again:</p><pre tabIndex={0}>{made.key}</pre><FirstUse of={made.key ?? ""} may={v.permissions ?? ""} /></div>;
        }}>
        <Field label="Name" name="name" placeholder="shop" maxLength={100} />
        <Field label="Permissions" name="permissions" defaultValue="events:write, messages:send" required hint="Words separated by commas: events:write, messages:send, braze (all calls of Braze's API), all, or others of `sluice help key`." />
      </FormDialog>
    }>
      <Loaded query={query}>{({ keys }) => <Table label="API keys" columns={columns} rows={keys} keyOf={(k) => k.id} empty={<Empty title="No keys yet">A program needs one to post events, users or mail.</Empty>} />}</Loaded>
    </Panel>
  );
}

/** GroupFields also says when the group had been changed last as the form was opened; empty: it was none. */
function GroupFields({ of }: { of?: Schema<"Group"> }) {
  const [was] = useState(of?.updated ?? "");
  return (
    <>
      <input type="hidden" name="was" value={was} />
      <Field label="Name" name="name" defaultValue={of?.name} maxLength={200} required hint="What people see." />
      <Field label="Description" name="description" defaultValue={of?.description} maxLength={1000} />
      <label className="field"><span>Who sees it</span>
        <select className="input" name="public" defaultValue={of?.public ? "yes" : "no"}>
          <option value="no">nobody: it is not on the page</option>
          <option value="yes">people, on the page of their mail</option>
        </select>
      </label>
      <Field label="Order" name="order" type="number" min={1} max={10000} defaultValue={String(of?.order ?? 1000)} required hint="The smaller comes first." />
    </>
  );
}

function Groups() {
  const client = useQueryClient();
  const query = useQuery({ queryKey: ["groups"], queryFn: () => get("/v1/groups") });
  const again = () => client.invalidateQueries({ queryKey: ["groups"] });
  const put = async (id: string, v: Record<string, string>) => {
    const body = { name: v.name ?? "", description: v.description ?? "", public: v.public === "yes", order: Number(v.order) };
    // A change sends all members, so it would undo that of somebody else.
    const now = (await get("/v1/groups")).groups.find((g) => g.id === id);
    if ((now?.updated ?? "") !== v.was) {
      void again();
      // It may be what this form has saved, and had no answer to.
      if (now && now.name === body.name && now.description === body.description && now.public === body.public && now.order === body.order) return;
      throw new ApiError(409, "conflict", v.was ? "Somebody has changed or removed this group meanwhile. Close this, and look at what it is now." : "There is a group with this id already. Close this, and change that one.");
    }
    await call("put", "/v1/groups/{id}", { params: { id }, body });
    await again();
  };
  const columns: Column<Schema<"Group">>[] = [
    { header: "Name", accessorKey: "name", cell: (c) => <div><div><Text of={c.row.original.name} /></div><div className="muted small"><Text of={c.row.original.description} /></div></div> },
    { header: "Id", accessorKey: "id", meta: { hideSmall: true }, cell: (c) => <span className="mono"><Text of={c.row.original.id} /></span> },
    { header: "Public", accessorKey: "public", cell: (c) => (c.row.original.public ? <Badge tone="good">public</Badge> : <Badge>private</Badge>) },
    { header: "Order", accessorKey: "order", meta: { num: true, hideSmall: true } },
    {
      header: () => <span className="sr">Actions</span>, id: "actions", enableSorting: false, meta: { num: true },
      cell: (c) => {
        const g = c.row.original;
        return (
          <div className="rowx" style={{ justifyContent: "flex-end" }}>
            <FormDialog title={`Change ${shortened(g.name)}`} action="Save" trigger={<Button className="small">Change</Button>} submit={(v) => put(g.id, v)}><GroupFields of={g} /></FormDialog>
            <Confirm title={`Remove ${shortened(g.name)}?`} action="Remove" trigger={<Button className="small">Remove</Button>} act={async () => { await call("delete", "/v1/groups/{id}", { params: { id: g.id } }); await again(); }}>The page of mails shows it no more. What people chose stays.</Confirm>
          </div>
        );
      },
    },
  ];
  return (
    <Panel title="Subscription groups" pad={false} action={
      <FormDialog title="Name a group" action="Save" trigger={<Button className="small" kind="primary">Name a group</Button>} submit={(v) => put(v.id!, v)}>
        <Field label="Id" name="id" maxLength={255} required placeholder="weekly" hint="As Braze's calls, forms and journeys name it." />
        <GroupFields />
      </FormDialog>
    }>
      <Loaded query={query}>{({ groups }) => <Table label="Subscription groups" columns={columns} rows={groups} keyOf={(g) => g.id} empty={<Empty title="No group has a name yet">Public groups are what people choose on the page of their mail.</Empty>} />}</Loaded>
    </Panel>
  );
}

const shownOf = (value: unknown) => (value === undefined ? "–" : typeof value === "string" ? value || "empty" : JSON.stringify(value));

/** Change is what a change has changed, member by member; where that is not noted, what was sent. */
function Change({ e, whole = false }: { e: Schema<"AuditEntry">; whole?: boolean }) {
  const before: Record<string, unknown> = e.before ?? {};
  const { not_compared: others = 0, ...after }: Record<string, unknown> & { not_compared?: number } = e.after ?? {};
  const members = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  const removed = Object.keys(after).length === 0;
  return (
    <>
      {members.length === 0 && <span className="muted"><Text of={e.detail} whole={whole} /></span>}
      <dl className="changes">
        {members.map((m) => (
          <div key={m}>
            <dt><Text of={m} /></dt>
            <dd>{e.before && <><span className="sr">before</span><del><Text of={shownOf(before[m])} whole={whole} /></del></>} {!removed && <><span className="sr">after</span><ins><Text of={shownOf(after[m])} whole={whole} /></ins></>}</dd>
          </div>
        ))}
      </dl>
      {removed && members.length > 0 && <Badge>removed</Badge>}
      {others > 0 && <p className="muted">Of {count(others)} more in this request nothing is compared.</p>}
    </>
  );
}

const nameOf = (e: Schema<"AuditEntry">) => `${e.method} ${e.path}`;

/** Answered is what the server made of a change. One that was answered 500 or more may have been made. */
const Answered = ({ e }: { e: Schema<"AuditEntry"> }) => (e.status === 0 || e.status >= 500 ? <Badge tone="warn">not known {e.status || ""}</Badge> : e.status < 300 ? <Badge tone="good">done</Badge> : <Badge tone="bad">refused {e.status}</Badge>);

/** Entry is a change in full: a phone has no room for what it changed, nor has a long list. */
function Entry({ e }: { e: Schema<"AuditEntry"> }) {
  return (
    <Details title={<Text of={nameOf(e)} whole />} trigger={<button type="button" className="as-link mono wrap path"><Text of={nameOf(e)} /></button>}>
      <dl className="facts">
        <dt>When</dt><dd>{when(e.time)}</dd><dt>Who</dt><dd><Text of={e.name} /></dd><dt>Answer</dt><dd><Answered e={e} /></dd>
        {(e.before || e.after) && e.detail && <><dt>Sent</dt><dd><Text of={e.detail} whole /></dd></>}
      </dl>
      <div><h3>{e.before || e.after ? "Before and after" : "Sent"}</h3><Change e={e} whole /></div>
    </Details>
  );
}

const auditColumns: Column<Schema<"AuditEntry">>[] = [
  { header: "When", accessorKey: "time", cell: (c) => <span className="when muted">{when(c.row.original.time)}</span> },
  { header: "Who", accessorKey: "name", meta: { hideSmall: true }, cell: (c) => <div className="clip short" title={shortened(c.row.original.name)}><Text of={c.row.original.name} /></div> },
  { header: "What", accessorKey: "path", meta: { wide: true }, cell: (c) => <Entry e={c.row.original} /> },
  { header: "Before and after", accessorKey: "detail", enableSorting: false, meta: { hideSmall: "detail" }, cell: (c) => <Change e={c.row.original} /> },
  { header: "Answer", accessorKey: "status", meta: { num: true }, cell: (c) => <Answered e={c.row.original} /> },
];

function Audit() {
  const query = useInfiniteQuery({ queryKey: ["audit"], initialPageParam: "", queryFn: ({ pageParam }) => get("/v1/audit", { query: { before: pageParam } }), getNextPageParam: (last) => last.next });
  return (
    <Panel title="Audit log" pad={false} action={<span className="small muted">What accounts have changed, for a year</span>}>
      <Loaded query={query} rows={8}>
        {(data) => (
          <>
            <Table label="Audit log" columns={auditColumns} rows={data.pages.flatMap((p) => p.entries)} keyOf={(e) => e.id} empty={<Empty title="Nothing was changed yet" />} />
            <More query={query}>Older</More>
          </>
        )}
      </Loaded>
    </Panel>
  );
}

export function Settings({ part }: { part?: string }) {
  const { permissions } = useSession();
  const mine = Object.entries(parts).filter(([, p]) => permissions.includes(p.permission));
  if (!part && mine[0]) return <Redirect to={`/settings/${mine[0][0]}`} replace />;
  const shown = part && Object.hasOwn(parts, part) ? parts[part] : undefined;
  return (
    <>
      <PageHead title="Settings" />
      {mine.length > 0 && <Tabs label="Settings" tabs={mine.map(([name, { text }]): [string, string] => [`/settings/${name}`, text])} current={`/settings/${part}`} />}
      {part && !shown ? <Empty title="There is no such page" />
        : shown && permissions.includes(shown.permission) ? shown.show()
        : <Panel><Empty title="Not for your role">It lacks the permission {shown?.permission ?? "for any setting"}.</Empty></Panel>}
    </>
  );
}
