import type { Schema } from "../api/client";
import { count, share, words } from "../format";
import { Panel, Table, Text, type Column } from "../ui";

type Counts = NonNullable<Schema<"JourneyInFull">["counts"]>;

/** Uplift compares those who got the mails of a journey with those who got none, by one conversion. */
type Uplift = Counts["uplift"][number] & { step?: string; path?: string; percent?: number };

const points = (n: number) => `${n > 0 ? "+" : ""}${(100 * n).toFixed(2)}`;
const part = (converted: number, entered: number) => <>{share(converted, entered)} <span className="muted">of {count(entered)}</span></>;

function against(u: Uplift) {
  if (u.step !== undefined) return <>path <Text of={u.path ?? ""} /> of <Text of={u.step} />, with its control path</>;
  return u.percent === undefined ? "with the control group" : `with the control group of all journeys, while it was ${u.percent}%`;
}

const columns: Column<Uplift>[] = [
  { header: "Conversion", id: "conversion", enableSorting: false, cell: (c) => <Text of={words(c.row.original.conversion)} /> },
  { header: "Compared", id: "against", enableSorting: false, cell: (c) => against(c.row.original) },
  { header: "Converted", id: "converted", enableSorting: false, meta: { num: true, hideSmall: true }, cell: (c) => part(c.row.original.converted, c.row.original.entered) },
  { header: "Of the others", id: "others", enableSorting: false, meta: { num: true, hideSmall: true }, cell: (c) => part(c.row.original.control_converted, c.row.original.control_entered) },
  { header: "Difference", id: "difference", enableSorting: false, meta: { num: true }, cell: (c) => <span className="nowrap">{points(c.row.original.difference)} points{!c.row.original.shown && <span className="muted">, may be chance</span>}</span> },
  { header: "Between", id: "between", enableSorting: false, meta: { num: true, hideSmall: true }, cell: (c) => <span className="nowrap">{points(c.row.original.low)} and {points(c.row.original.high)}</span> },
];

/** Effect shows what the mails of a journey change, where some people got none of them. */
export function Effect({ counts }: { counts: Counts | undefined }) {
  const rows: Uplift[] = [...(counts?.uplift ?? []), ...(counts?.path_uplift ?? []), ...(counts?.global_uplift ?? [])];
  if (rows.length === 0) return null;
  return (
    <Panel title="Uplift" action={<span className="small muted">the true difference is between the two, with a confidence of 95%</span>} pad={false}>
      <Table label="Uplift" columns={columns} rows={rows} keyOf={(u) => `${u.conversion} ${u.step ?? ""} ${u.path ?? ""} ${u.percent ?? ""}`} empty={null} />
    </Panel>
  );
}
