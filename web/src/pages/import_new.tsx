import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { call, type Schema } from "../api/client";
import { bytes, count, shortened, when } from "../format";
import { Badge, Button, Empty, Field, Loaded, Panel, Problem, Select, Table, Text, type Column } from "../ui";
import { RefusedLines } from "./import_refused";

type Preview = Schema<"ImportPreview">;
type PreviewColumn = Schema<"ImportColumn">;
type Row = Schema<"ImportRow">;

const headBytes = 64 << 10;

// A byte order mark stays: without it a small file would count as cut off.
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** headOf is the beginning of a file, which has no more than headBytes as the API counts them. */
async function headOf(file: File): Promise<string> {
  let text = decoder.decode(await file.slice(0, headBytes).arrayBuffer());
  while (new TextEncoder().encode(text).length > headBytes) text = text.slice(0, Math.floor(text.length * 0.9));
  return text;
}

const eventColumns: Column<Row>[] = [
  { header: "Line", accessorKey: "line" },
  { header: "Event", accessorFn: (r) => r.event ?? "", cell: (c) => <Text of={c.row.original.event ?? ""} /> },
  { header: "Time", accessorFn: (r) => r.time ?? "", cell: (c) => <span className="nowrap">{when(c.row.original.time)}</span> },
  { header: "Person", accessorFn: (r) => r.user_id ?? r.email ?? "", cell: (c) => <Text of={c.row.original.user_id ?? c.row.original.email ?? "–"} /> },
  { header: "Properties", accessorFn: (r) => JSON.stringify(r.properties ?? {}), meta: { hideSmall: true }, cell: (c) => <Text of={JSON.stringify(c.row.original.properties ?? {})} /> },
];

const userColumns: Column<Row>[] = [
  { header: "Line", accessorKey: "line" },
  { header: "Person", accessorFn: (r) => r.user ?? "", cell: (c) => <><Text of={c.row.original.user ?? ""} /> <span className="small muted">{c.row.original.named_by}</span></> },
  { header: "Attributes", accessorFn: (r) => JSON.stringify(r.attributes ?? {}), cell: (c) => <Text of={JSON.stringify(c.row.original.attributes ?? {})} /> },
];

const asItIs = "\u0000as it is"; // no name of a column

/** Becomes chooses what a column is taken for. */
function Becomes({ column: c, fields, change }: { column: PreviewColumn; fields: string[]; change: (to: string | undefined) => void }) {
  return (
    <select className="input" aria-label={`What ${shortened(c.name)} becomes`} value={c.to === c.name ? asItIs : c.to} onChange={(e) => change(e.target.value === asItIs ? undefined : e.target.value)}>
      <option value={asItIs}>{c.to === c.name ? c.as : "as it is called"}</option>
      <option value="">left out</option>
      {c.to !== "" && c.to !== c.name && !fields.includes(c.to) && <option value={c.to}>{shortened(c.to)}</option>}
      {fields.filter((f) => f !== c.name).map((f) => <option key={f} value={f}>{f}</option>)}
    </select>
  );
}

function Mapping({ preview, change }: { preview: Preview; change: (name: string, to: string | undefined) => void }) {
  const columns: Column<PreviewColumn>[] = [
    { header: "In the file", accessorKey: "name", cell: (c) => <Text of={c.row.original.name} /> },
    { header: "Such as", id: "samples", enableSorting: false, meta: { hideSmall: true }, cell: (c) => <span className="muted"><Text of={c.row.original.samples.join(", ")} /></span> },
    {
      header: "Becomes", id: "to", enableSorting: false,
      cell: (c) => preview.options.exported ? <>{c.row.original.as}</> : <Becomes column={c.row.original} fields={preview.fields} change={(to) => change(c.row.original.name, to)} />,
    },
  ];
  return <Table label="Columns" columns={columns} rows={preview.columns} keyOf={(c) => c.name} empty={<Empty title="No columns are found" />} />;
}

/** NewImport shows what a file becomes, lets that be changed, and begins. */
export function NewImport({ file, begun, cancel }: { file: File; begun: (i: Schema<"Import">, file: File) => void; cancel: () => void }) {
  const [kind, setKind] = useState<"events" | "users">("events");
  const [columns, setColumns] = useState<Record<string, string>>(); // undefined: the server finds them out
  const [app, setApp] = useState("");
  const [delimiter, setDelimiter] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const options = { kind, delimiter, ...(columns && { columns }), ...(kind === "events" && app && { app_id: app }) };
  const query = useQuery({
    queryKey: ["imports", "preview", file.name, file.size, file.lastModified, options],
    queryFn: async () => call("post", "/v1/imports/preview", { body: { ...options, text: await headOf(file), size: Math.max(1, file.size) } }),
    placeholderData: keepPreviousData,
    retry: false,
    staleTime: Infinity,
    gcTime: 0,
  });
  const change = (name: string, to: string | undefined) => {
    const now = { ...(columns ?? query.data?.options.columns) };
    if (to === undefined) delete now[name];
    else now[name] = to;
    setColumns(now);
  };
  const begin = async (preview: Preview) => {
    setBusy(true);
    setError(undefined);
    try {
      begun(await call("post", "/v1/imports", { body: { ...preview.options, name: file.name.slice(0, 80) || "file", size: file.size } }), file);
    } catch (e) {
      setError(e);
      setBusy(false);
    }
  };
  return (
    <div className="stack">
      <Panel title={<Text of={file.name} />} action={<span className="muted small">{bytes(file.size)}</span>}>
        <div className="stack">
          <div className="toolbar">
            <Select label="Its lines are" value={kind} onChange={(k) => { setKind(k as typeof kind); setColumns(undefined); }} options={[["events", "events: what people did"], ["users", "users: who people are"]]} />
            <Select label="Between the cells" value={delimiter} onChange={(d) => { setDelimiter(d); setColumns(undefined); }} options={[["", query.data?.options.delimiter ? `found: ${query.data.options.delimiter}` : "found by the header"], [",", "comma"], [";", "semicolon"], ["tab", "tab"], ["|", "bar"]]} />
            {kind === "events" && <Field label="App, of events that name none" value={app} onChange={(e) => setApp(e.target.value)} maxLength={64} />}
          </div>
          {error !== undefined && <Problem error={error} />}
          <div className="rowx">
            <Button kind="primary" disabled={busy || query.isFetching || !query.data || query.data.rows.length === 0} onClick={() => query.data && void begin(query.data)}>Start the import</Button>
            <Button onClick={cancel}>Cancel</Button>
            {query.data && <span className="muted">{count(query.data.lines)} lines looked at, {query.data.refused_count > 0 ? <Badge tone="warn">{count(query.data.refused_count)} would be refused</Badge> : "all would be taken"}</span>}
          </div>
        </div>
      </Panel>
      <Panel title="What the columns become" pad={false}><Loaded query={query} rows={4}>{(p) => <Mapping preview={p} change={change} />}</Loaded></Panel>
      {query.data && (
        <>
          <Panel title="How the first lines are understood" pad={false}>
            <Table label="First lines" columns={kind === "events" ? eventColumns : userColumns} rows={query.data.rows} keyOf={(r) => String(r.line)} empty={<Empty title="No line would be taken">Say above what the columns become: an event needs a name and a time, a user an id or an address.</Empty>} />
          </Panel>
          <RefusedLines lines={query.data.refused} all={query.data.refused_count} name={file.name} />
        </>
      )}
    </div>
  );
}
