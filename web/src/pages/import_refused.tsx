import type { Schema } from "../api/client";
import { count, shortened } from "../format";
import { Panel, Table, Text, type Column } from "../ui";

type Refused = Schema<"RefusedLine">;

/** csvOf makes a file of lines that were refused, which no program takes for a formula. */
function csvOf(lines: Refused[]): string {
  const quoted = (text: string) => `"${(/^[=+\-@\t]/.test(text) ? "'" : "") + text.replaceAll('"', '""')}"`;
  return `data:text/csv;charset=utf-8,${encodeURIComponent(["line,reason", ...lines.map((l) => `${l.line},${quoted(l.reason)}`)].join("\r\n"))}`;
}

const refusedColumns: Column<Refused>[] = [
  { header: "Line", accessorKey: "line", cell: (c) => count(c.row.original.line) },
  { header: "Reason", accessorKey: "reason", cell: (c) => <Text of={c.row.original.reason} /> },
];

/** RefusedLines shows lines that were not taken, as far as they are known. */
export function RefusedLines({ lines, all, name, kept = false }: { lines: Refused[]; all: number; name: string; kept?: boolean }) {
  if (all === 0) return null;
  const download = lines.length > 0 && <a className="btn small" download={`${shortened(name)}.refused.csv`} href={csvOf(lines)}>Download as CSV</a>;
  return (
    <Panel title={`Refused lines: ${count(all)}`} action={download} pad={false}>
      <Table label="Refused lines" columns={refusedColumns} rows={lines} keyOf={(l) => String(l.line)} empty={<p className="panel-body muted">Which ones is not known any more.</p>} />
      {all > lines.length && <p className="panel-body muted">The first {count(lines.length)} are listed.</p>}
      {kept && lines.length > 0 && <p className="panel-body muted">Values of lines are not kept: “…” stands for one. Your file has them.</p>}
    </Panel>
  );
}
