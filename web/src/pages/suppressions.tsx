import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useLocation, useSearch } from "wouter";
import { call, get, type Schema } from "../api/client";
import { useMay } from "../api/session";
import { shortened, when, words } from "../format";
import { ended, held, holds, scopeOf, useDomainHold } from "./held";
import { Badge, Button, Confirm, Empty, Field, FormDialog, Loaded, More, Panel, PageHead, Problem, Table, Text, useTyped, type Column } from "../ui";

type Row = Schema<"Suppression">;

/** Reason is why mail is held back, and until when if not for good. */
function Reason({ of: s }: { of: Row }) {
  if (s.removed) return <Badge>removed</Badge>;
  if (ended(s)) return <Badge>ended</Badge>;
  return <><Badge tone="warn">{words(s.reason)}</Badge>{s.ends && <div className="small muted">until {when(s.ends)}</div>}</>;
}

export function Suppressions() {
  const entry = new URLSearchParams(useSearch()).get("entry") ?? "";
  const [, go] = useLocation();
  const [text, setText] = useTyped(entry);
  const may = useMay("suppressions:write");
  const client = useQueryClient();
  const query = useInfiniteQuery({
    queryKey: ["suppressions", entry],
    initialPageParam: "",
    queryFn: ({ pageParam }) => get("/v1/suppressions", { query: entry ? { entry } : { after: pageParam, limit: 200 } }),
    getNextPageParam: (last) => last.next,
  });
  const domain = useDomainHold(entry);
  const again = () => client.invalidateQueries({ queryKey: ["suppressions"] });
  const columns: Column<Row>[] = [
    { header: "Entry", accessorKey: "entry", meta: { wide: true }, cell: (c) => <Text of={c.row.original.entry} /> },
    { header: "Reason", accessorKey: "reason", meta: { least: 132 }, cell: (c) => <Reason of={c.row.original} /> },
    { header: "Holds back", accessorKey: "scope", meta: { hideSmall: true }, cell: (c) => scopeOf(c.row.original) },
    { header: "App", accessorKey: "app_id", meta: { hideSmall: true }, cell: (c) => (c.row.original.app_id ? <Text of={c.row.original.app_id} /> : <span className="muted">all</span>) },
    { header: "From", accessorKey: "source", meta: { hideSmall: true }, cell: (c) => <div className="clip short muted" title={shortened(c.row.original.source)}><Text of={c.row.original.source} /></div> },
    { header: "Since", accessorKey: "time", meta: { num: true, hideSmall: true }, cell: (c) => <span className="nowrap muted">{when(c.row.original.time)}</span> },
  ];
  if (may) columns.push({
    header: () => <span className="sr">Actions</span>, id: "actions", enableSorting: false, meta: { num: true },
    cell: (c) => holds(c.row.original) && (
      <Confirm title={`Mail ${shortened(c.row.original.entry)} again?`} action="Remove" trigger={<Button className="small">Remove</Button>}
        act={async () => { await call("post", "/v1/suppressions/remove", { body: { entries: [c.row.original.entry], reason: c.row.original.reason, scope: c.row.original.scope, app_id: c.row.original.app_id } }); await again(); }}>
        It was suppressed for: {words(c.row.original.reason)}, {held(c.row.original)}. This alone is removed; mail leaves again within a second, unless something else holds it back.
      </Confirm>
    ),
  });
  return (
    <>
      <PageHead title="Suppressions">
        {may && (
          <FormDialog title="Suppress an address" action="Suppress" trigger={<Button kind="primary">Suppress an address</Button>}
            submit={async (v) => { await call("post", "/v1/suppressions", { body: { suppressions: [{ entry: v.entry, reason: "manual", scope: v.scope }] } }); await again(); }}>
            <Field label="Address, or a domain" name="entry" placeholder="bob@example.com" required maxLength={256} />
            <label className="field"><span>Holds back</span><select className="input" name="scope" defaultValue="all"><option value="all">all mail</option><option value="marketing">marketing mail alone</option></select></label>
          </FormDialog>
        )}
      </PageHead>
      <div className="stack">
        <form className="toolbar" role="search" onSubmit={(e) => { e.preventDefault(); go(text.trim() ? `/suppressions?entry=${encodeURIComponent(text.trim())}` : "/suppressions"); }}>
          <Field label="Address or domain" type="search" value={text} onChange={(e) => setText(e.target.value)} placeholder="bob@example.com" />
          <Button kind="primary" type="submit">Find</Button>
        </form>
        {domain.data && <div className="banner warn" role="status"><span className="grow">Mail to <Text of={entry} /> is held back by its domain: {domain.data}.</span></div>}
        {domain.error && <Problem error={new Error(`Whether its domain is suppressed is not known. ${domain.error.message}`)} retry={() => void domain.refetch()} />}
        <Panel pad={false}>
          <Loaded query={query} rows={8}>
            {(data) => (
              <>
                <Table label="Suppressions" columns={columns} rows={data.pages.flatMap((p) => p.suppressions)} keyOf={(s) => [s.entry, s.scope, s.app_id, s.reason].join("\n")} empty={<Empty title={entry === "" ? "Nobody is suppressed" : domain.data || domain.isLoading || domain.error ? "The address itself is not suppressed" : "It is not suppressed"}>Addresses that bounce, complain or unsubscribe come here by themselves.</Empty>} />
                <More query={query} />
              </>
            )}
          </Loaded>
        </Panel>
      </div>
    </>
  );
}
