import { useQuery } from "@tanstack/react-query";
import { call, get, type Schema } from "../api/client";
import { useMay } from "../api/session";
import { count, shortened, visible } from "../format";
import { Badge, Button, Empty, FormDialog, Loaded, Panel, Table, Text, type Column } from "../ui";

type Settings = Schema<"Settings">;
type RouteRow = Settings["routes"][number];
type DomainRow = Settings["domains"][number];
type SettingRow = Settings["settings"][number];

/** Place is where a setting is to be changed; without a file it is set nowhere. */
const Place = ({ of }: { of: string }) => (of === "default" ? <span className="muted">default</span> : <span className="mono"><Text of={of} /></span>);

const routeColumns: Column<RouteRow>[] = [
  { header: "Route", accessorKey: "route", cell: (c) => <Text of={c.row.original.route} /> },
  {
    header: "State", id: "state", accessorFn: (r) => r.why ?? r.breaker,
    cell: ({ row: { original: r } }) => (r.why ? <><Badge tone="bad">down</Badge> <span className="small muted"><Text of={r.why} /></span></> : r.breaker === "closed" ? <Badge tone="good">works</Badge> : <Badge tone="warn">{r.breaker}</Badge>),
  },
  { header: "Mails", accessorKey: "mails", meta: { num: true, hideSmall: true }, cell: (c) => count(c.row.original.mails) },
  { header: "Left today", id: "left", accessorFn: (r) => r.left_today ?? -1, meta: { num: true, hideSmall: true }, cell: (c) => (c.row.original.left_today === undefined ? <span className="muted">no limit</span> : count(c.row.original.left_today)) },
  { header: "Set in", accessorKey: "set", cell: (c) => <Place of={c.row.original.set} /> },
];

const tones = { ok: "good", warning: "warn", error: "bad", unknown: "plain" } as const;

function Look({ domain }: { domain: string }) {
  if (!useMay("domains:read")) return null;
  const look = async () => {
    const found = await get("/v1/domains/{domain}", { params: { domain } });
    return (
      <ul className="stack-s">
        {found.findings.map((f, i) => (
          <li key={i}><Badge tone={tones[f.severity]}>{f.severity}</Badge> <span className="mono">{f.check}</span><div className="wrap">{visible(f.found)}</div>{f.remedy && <div className="small muted wrap">{f.remedy}</div>}</li>
        ))}
      </ul>
    );
  };
  return <FormDialog title={`What receivers find about ${shortened(domain)}`} action="Look in DNS now" submit={look} trigger={<Button className="small">Look now</Button>}><p className="muted">It takes up to 20 seconds where DNS does not answer.</p></FormDialog>;
}

const domainColumns: Column<DomainRow>[] = [
  { header: "Domain", accessorKey: "domain", cell: (c) => <Text of={c.row.original.domain} /> },
  {
    header: "State", id: "state", accessorFn: (d) => d.errors * 1000 + d.warnings,
    cell: ({ row: { original: d } }) => (d.errors > 0 ? <Badge tone="bad">{d.errors} wrong</Badge> : d.warnings > 0 ? <Badge tone="warn">{d.warnings === 1 ? "1 warning" : `${d.warnings} warnings`}</Badge> : d.ok > 0 ? <Badge tone="good">well</Badge> : <Badge>not known</Badge>),
  },
  { header: () => <span className="sr">Actions</span>, id: "actions", enableSorting: false, meta: { num: true }, cell: (c) => <Look domain={c.row.original.domain} /> },
];

const settingColumns: Column<SettingRow>[] = [
  { header: "Setting", accessorKey: "name", cell: (c) => <span className="mono">{c.row.original.name}</span> },
  { header: "Value", accessorKey: "value", cell: (c) => (c.row.original.value ? <Text of={c.row.original.value} /> : <span className="muted">none</span>) },
  { header: "Set in", accessorKey: "set", cell: (c) => <Place of={c.row.original.set} /> },
];

/** Routes are the ways out of mail and the domains it is sent from. They are changed in the file. */
export function Routes() {
  const query = useQuery({ queryKey: ["settings"], queryFn: () => call("get", "/v1/settings"), refetchInterval: 10_000 });
  return (
    <Loaded query={query} rows={8}>
      {({ routes, domains, settings }) => (
        <div className="stack">
          <Panel title="Routes" pad={false} action={<span className="small muted">Mails since this process began. Changed in the file, at the next start</span>}>
            <Table label="Routes" columns={routeColumns} rows={routes} keyOf={(r) => r.route} empty={<Empty title="This process does not send">Routes are shown by a process with the role send.</Empty>} />
          </Panel>
          <Panel title="Sender domains" pad={false}>
            <Table label="Sender domains" columns={domainColumns} rows={domains} keyOf={(d) => d.domain} empty={<Empty title="No domain was looked at">With sending allow-list or on, a domain is looked at with its first mail.</Empty>} />
          </Panel>
          <Panel title="Settings" pad={false}>
            <Table label="Settings" columns={settingColumns} rows={settings} keyOf={(s) => s.name} empty={<Empty title="There are none" />} />
          </Panel>
        </div>
      )}
    </Loaded>
  );
}
