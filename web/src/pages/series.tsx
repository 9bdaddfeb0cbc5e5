import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import UPlot from "uplot";
import { useLocation, useSearch } from "wouter";
import { get } from "../api/client";
import { count, now, shortened, when } from "../format";
import { Empty, Loaded, Panel, PageHead, Select, Table, Text, type Column } from "../ui";

interface Line { name: string; sum: number; at: Map<number, number> }

const mostLines = 8;
const dashed = [6, 4]; // of the second half of the lines: so those whose colours an eye may mix up differ too

// Counts by day are of days of UTC, whatever zone the browser is in: they are shown as such.
const utcDay = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
const utcDate = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeZone: "UTC" });
const dayOf = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const hourOf = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

/** tick says what is below a line of the chart: the day, or the hour and the day where one begins. */
function tick(seconds: number, byDay: boolean): string {
  const at = new Date(seconds * 1000);
  if (byDay) return utcDay.format(at);
  return at.getHours() === 0 && at.getMinutes() === 0 ? dayOf.format(at) : hourOf.format(at);
}

/** Chart draws lines by uPlot, each in a colour of its own. */
function Chart({ lines, times, byDay }: { lines: Line[]; times: number[]; byDay: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const at = box.current;
    if (!at) return;
    let plot: UPlot | undefined;
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const draw = () => {
      plot?.destroy();
      // A probe resolves light-dark() to the colour of the scheme that is on.
      const colour = (token: string) => {
        const probe = document.createElement("span");
        probe.style.color = `var(${token})`;
        at.append(probe);
        const found = getComputedStyle(probe).color;
        probe.remove();
        return found;
      };
      const strokes = Array.from({ length: mostLines }, (_, i) => colour(`--series-${i + 1}`));
      const isDashed = (line: number) => line >= mostLines / 2;
      const axis: UPlot.Axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
      plot = new UPlot(
        {
          width: at.clientWidth, height: 280, cursor: { y: false },
          ...(byDay && { tzDate: (seconds: number) => UPlot.tzDate(new Date(seconds * 1000), "UTC") }),
          axes: [{ ...axis, values: (_, at) => at.map((seconds) => tick(seconds, byDay)) }, { ...axis, size: 60, values: (_, vs) => vs.map((v) => (Number.isInteger(v) ? count(v) : "")) }],
          legend: { markers: { dash: (_, series) => (isDashed(series - 1) ? "dashed" : "solid") } },
          series: [{ label: "Time", value: (_, at) => (at === null ? "–" : byDay ? `${utcDate.format(at * 1000)} (UTC)` : when(new Date(at * 1000).toISOString())) }, ...lines.map((l, i) => ({ label: shortened(l.name), stroke: strokes[i]!, width: 1.5, dash: isDashed(i) ? dashed : [], points: { show: times.length < 3 } }))],
        },
        [times, ...lines.map((l) => times.map((t) => l.at.get(t) ?? 0))],
        at,
      );
    };
    draw();
    const sizes = new ResizeObserver(() => plot?.setSize({ width: at.clientWidth, height: 280 }));
    sizes.observe(at);
    dark.addEventListener("change", draw);
    return () => {
      sizes.disconnect();
      dark.removeEventListener("change", draw);
      plot?.destroy();
    };
  }, [lines, times, byDay]);
  return <div className="chart" ref={box} role="img" aria-label="The counts over time. The table below has their sums, and the CSV each of them." />;
}

const columns: Column<Line>[] = [
  { header: "Name", accessorKey: "name", cell: (c) => <Text of={c.row.original.name} /> },
  { header: "Count", accessorKey: "sum", meta: { num: true }, cell: (c) => count(c.row.original.sum) },
];

const kinds: [string, string][] = [["mail", "Mail"], ["custom", "Events"], ["purchase", "Purchases"], ["counter", "Counters"], ["system", "System"]];
const lengths: [string, string][] = [["1", "24 hours, by hour"], ["30", "30 days, by day (UTC)"], ["90", "90 days, by day (UTC)"]];

export default function Series() {
  const asked = new URLSearchParams(useSearch());
  const [, go] = useLocation();
  const chosen = (name: string, options: [string, string][]) => (options.find(([v]) => v === asked.get(name)) ?? options[0]!)[0];
  const kind = chosen("kind", kinds), days = chosen("days", lengths);
  const show = (next: { kind?: string; days?: string }) => go(`/series?${new URLSearchParams({ kind, days, ...next })}`);
  const step = days === "1" ? "hour" : "day";
  const query = useQuery({
    queryKey: ["series", kind, days],
    refetchInterval: 30_000,
    queryFn: async () => {
      const from = new Date(now() - Number(days) * 86_400_000).toISOString();
      const data = await get("/v1/series", { query: { kind, by: "name", step, from } });
      const lines = new Map<string, Line>();
      const times: number[] = [];
      const width = step === "hour" ? 3600 : 86_400;
      for (let t = Date.parse(data.from) / 1000; t < Date.parse(data.to) / 1000; t += width) times.push(t);
      for (const row of data.series) {
        const name = row.name ?? "";
        const line = lines.get(name) ?? { name, sum: 0, at: new Map<number, number>() };
        lines.set(name, line);
        line.sum += row.count;
        line.at.set(Date.parse(row.time) / 1000, row.count);
      }
      return { from: data.from, times, lines: [...lines.values()].sort((a, b) => b.sum - a.sum) };
    },
  });
  const csv = `/v1/series?${new URLSearchParams({ kind, by: "name", step, from: query.data?.from ?? "", format: "csv" })}`;
  return (
    <>
      <PageHead title="Series">{query.data && query.data.lines.length > 0 && <a className="btn" href={csv} download={`series-${kind}-${days}.csv`}>Download as CSV</a>}</PageHead>
      <div className="stack">
        <div className="toolbar">
          <Select label="Kind" value={kind} onChange={(k) => show({ kind: k })} options={kinds} />
          <Select label="Time" value={days} onChange={(d) => show({ days: d })} options={lengths} />
        </div>
        <Panel pad={false}>
          <Loaded query={query} rows={8}>
            {({ lines, times }) => (lines.length === 0 ? <Empty title="Nothing was counted">Not of this kind, in this time.</Empty> : (
              <>
                <div className="panel-body stack-s">
                  <Chart lines={lines.slice(0, mostLines)} times={times} byDay={step === "day"} />
                  {lines.length > mostLines && <p className="muted">Drawn are the {mostLines} of {count(lines.length)} names that were counted most. The table has all.</p>}
                </div>
                <Table label="Counts" columns={columns} rows={lines} keyOf={(l) => l.name} empty={null} />
              </>
            ))}
          </Loaded>
        </Panel>
      </div>
    </>
  );
}
