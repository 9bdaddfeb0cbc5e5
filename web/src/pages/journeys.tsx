import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "wouter";
import { call, get, type Schema } from "../api/client";
import { useMay } from "../api/session";
import { count, share, shortened, when, words } from "../format";
import { Button, Confirm, Empty, Loaded, More, Panel, PageHead, Source, State, Table, Text, type Column } from "../ui";

type Journey = Schema<"Journey">;
type Full = Schema<"JourneyInFull">;
type Counts = NonNullable<Full["counts"]>;
type Step = Counts["steps"][number];

/** Row is a step, or a branch of it. */
type Row = Pick<Step, "step" | "entered" | "waiting" | "passed" | "exited" | "sent" | "opened" | "clicked"> & { branch?: string };

const rowsOf = (steps: Step[]): Row[] => steps.flatMap((s): Row[] => [s, ...(s.paths ?? []).map((b) => ({ ...b, step: s.step }))]);

const columns: Column<Journey>[] = [
  { header: "Name", accessorKey: "name", cell: (c) => <Link href={`/journeys/${c.row.original.id}`}><Text of={c.row.original.name} /></Link> },
  { header: "Status", accessorKey: "status", cell: (c) => <State of={c.row.original.status} /> },
  { header: "Version", accessorKey: "version", meta: { num: true, hideSmall: true }, cell: (c) => c.row.original.version || <span className="muted">none</span> },
  { header: "Changed", accessorKey: "updated", meta: { num: true, hideSmall: true }, cell: (c) => <span className="nowrap muted">{when(c.row.original.updated)}</span> },
];

export function Journeys() {
  const query = useInfiniteQuery({ queryKey: ["journeys", "list"], initialPageParam: "", queryFn: ({ pageParam }) => get("/v1/journeys", { query: { after: pageParam } }), getNextPageParam: (last) => last.next });
  return (
    <>
      <PageHead title="Journeys" />
      <Panel pad={false}>
        <Loaded query={query}>
          {({ pages }) => (
            <>
              <Table label="Journeys" columns={columns} rows={pages.flatMap((p) => p.journeys)} keyOf={(j) => j.id} empty={<Empty title="No journeys yet">Write one in YAML, and put it here with: sluice journey apply FILE</Empty>} />
              <More query={query} />
            </>
          )}
        </Loaded>
      </Panel>
    </>
  );
}

function stepColumns(most: number): Column<Row>[] {
  const num = (header: string, key: keyof Row, hideSmall = false): Column<Row> => ({ header, accessorFn: (s) => s[key], id: String(key), meta: { num: true, hideSmall }, cell: (c) => count(Number(c.row.original[key] ?? 0)) });
  return [
    { header: "Step", accessorKey: "step", enableSorting: false, cell: (c) => (c.row.original.branch === undefined ? <Text of={c.row.original.step} /> : <span className="muted"><Text of={c.row.original.step} /> › <Text of={c.row.original.branch} /></span>) },
    { header: () => `Of ${count(most)}`, id: "bar", enableSorting: false, meta: { hideSmall: true }, cell: (c) => <div className="rowx nowrap"><div className="bar-track" aria-hidden>{c.row.original.entered > 0 && <div className="bar" style={{ width: `${most > 0 ? (c.row.original.entered / most) * 100 : 0}%` }} />}</div><span className="muted">{share(c.row.original.entered, most)}</span></div> },
    num("Came to it", "entered"), num("Waiting", "waiting"), num("Passed", "passed", true), num("Exited", "exited", true), num("Mails", "sent"),
    { header: "Opened", id: "opened", accessorFn: (s) => s.opened, meta: { num: true, hideSmall: true }, cell: (c) => (c.row.original.sent > 0 ? <>{count(c.row.original.opened)} <span className="muted">{share(c.row.original.opened, c.row.original.sent)}</span></> : "–") },
    { header: "Clicked", id: "clicked", accessorFn: (s) => s.clicked, meta: { num: true, hideSmall: true }, cell: (c) => (c.row.original.sent > 0 ? <>{count(c.row.original.clicked)} <span className="muted">{share(c.row.original.clicked, c.row.original.sent)}</span></> : "–") },
  ];
}

type Uplift = Counts["uplift"][number] & { step?: string; path?: string; percent?: number };

/** points are hundredths, of which a share is more or less than another. */
const points = (of: number) => `${of < 0 ? "−" : "+"}${Math.abs(of * 100).toFixed(2)}`;

/** whoOf says who is compared with whom. */
const whoOf = (u: Uplift) => (u.percent !== undefined ? `Everybody with the ${u.percent}% who get no marketing mail` : u.step === undefined ? "Everybody with the journey’s control group" : `${u.step} › ${u.path ?? ""} with its control`);

const upliftColumns: Column<Uplift>[] = [
  { header: "Compared", id: "who", enableSorting: false, cell: (c) => <Text of={whoOf(c.row.original)} /> },
  { header: "Conversion", accessorKey: "conversion", cell: (c) => <Text of={words(c.row.original.conversion)} /> },
  { header: "Converted", id: "converted", enableSorting: false, meta: { num: true }, cell: (c) => <>{share(c.row.original.converted, c.row.original.entered)} <span className="muted">of {count(c.row.original.entered)}</span></> },
  { header: "In the control group", id: "control", enableSorting: false, meta: { num: true }, cell: (c) => <>{share(c.row.original.control_converted, c.row.original.control_entered)} <span className="muted">of {count(c.row.original.control_entered)}</span></> },
  { header: "Points", accessorKey: "difference", meta: { num: true }, cell: (c) => <>{points(c.row.original.difference)} <span className="muted">{points(c.row.original.low)} to {points(c.row.original.high)}{!c.row.original.shown && ", no difference shown"}</span></> },
];

/** goalOf is the name of the main conversion, which is the first of the document. Another may be of the same people. */
function goalOf(j: Full): string | undefined {
  const { conversions } = j.document as { conversions?: unknown };
  const first: unknown = Array.isArray(conversions) ? conversions[0] : undefined;
  return typeof first === "object" && first !== null && "name" in first && typeof first.name === "string" ? first.name : undefined;
}

export function JourneyPage({ id }: { id: string }) {
  const may = useMay("journeys:write");
  const client = useQueryClient();
  const query = useQuery({ queryKey: ["journeys", "one", id], queryFn: () => get("/v1/journeys/{id}", { params: { id } }), refetchInterval: 3_000 });
  const pause = async () => {
    await call("post", "/v1/journeys/{id}/pause", { params: { id } });
    await client.invalidateQueries({ queryKey: ["journeys"] });
  };
  const resume = async (overdue: "send" | "skip") => {
    await call("post", "/v1/journeys/{id}/resume", { params: { id }, query: { overdue } });
    await client.invalidateQueries({ queryKey: ["journeys"] });
  };
  return (
    <>
      {!query.data && <PageHead title="Journey"><Link href="/journeys">All journeys</Link></PageHead>}
      <Loaded query={query} rows={8}>
        {(j) => {
          const steps = j.counts?.steps ?? [];
          const conversions = Object.entries(j.counts?.conversions ?? {});
          // The first step of the draft may be a new one, through which nobody came.
          const first = steps.reduce<Step | undefined>((a, s) => (a && a.entered >= s.entered ? a : s), undefined);
          const most = first?.entered ?? 0;
          const control = j.counts?.control ?? 0, entered = control + most;
          // People enter each version at its own first step, so of several nobody knows the sum.
          const several = j.version > 1;
          const whole = several && first ? `the ${count(most)} who came to ${shortened(first.step)}` : control > 0 ? `the ${count(most)} beside the control group` : "all who entered";
          const uplift: Uplift[] = [...(j.counts?.uplift ?? []), ...(j.counts?.path_uplift ?? []), ...(j.counts?.global_uplift ?? [])];
          const goal = goalOf(j) ?? conversions[0]?.[0];
          return (
            <>
              <PageHead title={<><Text of={j.name} /> <State of={j.status} /></>}>
                {may && j.status === "live" && <Confirm title={`Pause ${shortened(j.name)}?`} action="Pause" act={pause} trigger={<Button>Pause</Button>}>Nobody moves and nobody is let in until it is resumed. People keep their places. What takes people out still does.</Confirm>}
                {may && j.status === "paused" && (
                  <>
                    <Confirm danger={false} title={`Resume ${shortened(j.name)}?`} action="Resume" act={() => resume("send")} trigger={<Button kind="primary">Resume</Button>}>What was due meanwhile happens now: mails leave that are not too late, and people enter by the last time that was missed.</Confirm>
                    <Confirm danger={false} title={`Resume ${shortened(j.name)} without what was due?`} action="Resume without it" act={() => resume("skip")} trigger={<Button>Resume without what was due</Button>}>People whose time came meanwhile go on past the mails of then. Mail that waits is cancelled, and nobody enters by a time that was missed.</Confirm>
                  </>
                )}
                <Link href="/journeys">All journeys</Link>
              </PageHead>
              <div className="stack">
                {j.hold && <div className="banner warn" role="status"><span className="grow">It stands until somebody resumes or stops it: <Text of={j.hold} /></span></div>}
                {j.stays?.steps.map((s) => (
                  <div key={`${s.step} ${s.reason} ${s.why}`} className={`banner ${s.reason === "no_mail" || s.reason === "unreadable" ? "bad" : "warn"}`} role="status">
                    <span className="grow">{s.people > 0 ? <>{j.stays?.more && "At least "}{count(s.people)} people stay at <Text of={s.step} />{s.since && `, the first since ${when(s.since)}`}</> : <>Who comes to <Text of={s.step} /> stays there</>}: <Text of={s.why} /></span>
                  </div>
                ))}
                <dl className="figures">
                  <div className="figure"><dt>Entered</dt><dd>{several && "at least "}{count(entered)}{control > 0 && <div className="small muted">{count(control)} of them in the control group, who get no mail</div>}</dd></div>
                  <div className="figure"><dt>Inside</dt><dd>{count(steps.reduce((n, s) => n + s.waiting, 0))}</dd></div>
                  <div className="figure"><dt>Mails</dt><dd>{count(steps.reduce((n, s) => n + s.sent, 0))}</dd></div>
                  <div className="figure"><dt>Converted</dt><dd>{goal === undefined ? "–" : count(Number(j.counts?.conversions[goal] ?? 0))}<div className="small muted">{shortened(conversions.map(([name, v]) => `${words(name)} ${count(Number(v))}, ${share(Number(v), most)}`).join("; "))}{most > 0 && conversions.length > 0 && ` of ${whole}`}</div></dd></div>
                </dl>
                <Panel title="Steps" action={<span className="small muted">version {j.version || "none published"}; shares are of {whole}, of opens and clicks of the step’s mails</span>} pad={false}>
                  <Table label="Steps" columns={stepColumns(most)} rows={rowsOf(steps)} keyOf={(s) => `${s.step}/${s.branch ?? ""}`} empty={<Empty title="Nobody has been in it yet">Figures come when it is published.</Empty>} />
                </Panel>
                {uplift.length > 0 && (
                  <Panel title="Uplift" action={<span className="small muted">the true difference is between both points, with a confidence of 95 percent</span>} pad={false}>
                    <Table label="Uplift" columns={upliftColumns} rows={uplift} keyOf={(u) => `${u.percent ?? ""}/${u.step ?? ""}/${u.path ?? ""}/${u.conversion}`} empty={null} />
                  </Panel>
                )}
                <Panel title="Document" action={<span className="small muted">the draft: what the next version is made of</span>}><Source of={JSON.stringify(j.document, null, 2)} /></Panel>
              </div>
            </>
          );
        }}
      </Loaded>
    </>
  );
}
