import { useQuery, useQueryClient } from "@tanstack/react-query";
import { call, get, type Result } from "../api/client";
import { useMay } from "../api/session";
import { shortened, when } from "../format";
import { Button, Confirm, Panel, Problem, Table, Text, type Column } from "../ui";

type Stop = Result<"/v1/sending", "get">["stopped"][number];

/** whatOf is which mail a stop is about. */
function whatOf({ by, value, class: of }: Stop): string {
  const what = by === "all" ? "all mail" : by === "class" ? `${value} mail` : `mail of the ${by} ${value}`;
  return of ? `${what}, ${of} alone` : what;
}

/** since takes the time off a note, which begins with one. */
function since(note: string): { time: string; why: string } {
  const [first = "", ...rest] = note.split(" ");
  return Number.isNaN(Date.parse(first)) ? { time: "–", why: note } : { time: when(first), why: rest.join(" ") };
}

/** Stops are all that is stopped, by people or by itself, each with what lets it go on. */
export function Stops() {
  const sees = useMay("sending:read"), may = useMay("sending:write");
  const client = useQueryClient();
  const query = useQuery({ queryKey: ["sending"], queryFn: () => get("/v1/sending"), enabled: sees, refetchInterval: 5_000 });
  const resume = async ({ by, value, class: of }: Stop) => {
    await call("post", "/v1/sending/resume", { body: { by, value, ...(of && { class: of }) } });
    await client.invalidateQueries({ queryKey: ["sending"] });
  };
  const columns: Column<Stop>[] = [
    { header: "Mail", accessorFn: whatOf, meta: { wide: true }, cell: (c) => <Text of={whatOf(c.row.original)} /> },
    { header: "Why", accessorKey: "note", enableSorting: false, meta: { hideSmall: true }, cell: (c) => <Text of={since(c.row.original.note).why || "–"} /> },
    { header: "Since", id: "since", accessorFn: (s) => s.note, meta: { num: true }, cell: (c) => <span className="when muted">{since(c.row.original.note).time}</span> },
  ];
  if (may) columns.push({
    header: () => <span className="sr">Actions</span>, id: "actions", enableSorting: false, meta: { num: true },
    cell: (c) => (
      <Confirm danger={false} title={`Resume ${shortened(whatOf(c.row.original))}?`} action="Resume" act={() => resume(c.row.original)} trigger={<Button className="small">Resume</Button>}>
        {since(c.row.original.note).why && <p>It was stopped for: <Text of={since(c.row.original.note).why} /></p>}
        <p>What waited leaves at once, as fast as the routes take it, unless something else stops it.</p>
      </Confirm>
    ),
  });
  const problem = query.error && <Problem error={new Error(`What is stopped is not known. ${query.error.message}`)} retry={() => void query.refetch()} />;
  if (problem || !query.data?.stopped.length) return problem;
  return (
    <Panel title="Stopped mail" pad={false}>
      <Table label="Stopped mail" columns={columns} rows={query.data.stopped} keyOf={(s) => [s.by, s.value, s.class].join("\n")} empty={null} />
    </Panel>
  );
}
