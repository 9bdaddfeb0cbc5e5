import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import UPlot from "uplot";
import { get } from "../api/client";
import { count, now, shortened, when } from "../format";
import { Empty, Loaded, Panel, PageHead, Select, Table, Text, type Column } from "../ui";

interface Line { name: string; sum: number; at: Map<number, number> }

const mostLines = 8;
const dashes = [[], [6, 4], [2, 3], [10, 3, 2, 3]];

const dayOf = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const hourOf = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

/** tick says what is below a line of the chart: the hour, or the day where one begins. */
function tick(seconds: number): string {
  const at = new Date(seconds * 1000);
  return at.getHours() === 0 && at.getMinutes() === 0 ? dayOf.format(at) : hourOf.format(at);
}

/** Chart draws lines by uPlot, in the colours of the page; they differ by dashes and weight too. */
function Chart({ lines, times }: { lines: Line[]; times: number[] }) {
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
      const strokes = ["--accent", "--good", "--warn", "--bad"].map(colour);
      const axis: UPlot.Axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
      plot = new UPlot(
        {
          width: at.clientWidth, height: 280, cursor: { y: false },
          axes: [{ ...axis, values: (_, at) => at.map(tick) }, { ...axis, size: 60, values: (_, vs) => vs.map((v) => (Number.isInteger(v) ? count(v) : "")) }],
          series: [{ label: "Time", value: (_, at) => (at === null ? "–" : when(new Date(at * 1000).toISOString())) }, ...lines.map((l, i) => ({ label: shortened(l.name), stroke: strokes[i % 4]!, width: 1.5, dash: dashes[Math.floor(i / 4) % 4], points: { show: times.length < 3 } }))],
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
  }, [lines, times]);
  return <div className="chart" ref={box} role="img" aria-label="The counts over time, which the table below has as numbers" />;
}

const columns: Column<Line>[] = [
  { header: "Name", accessorKey: "name", cell: (c) => <Text of={c.row.original.name} /> },
  { header: "Count", accessorKey: "sum", meta: { num: true }, cell: (c) => count(c.row.original.sum) },
];

export default function Series() {
  const [kind, setKind] = useState("mail");
  const [days, setDays] = useState("1");
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
      return { times, lines: [...lines.values()].sort((a, b) => b.sum - a.sum) };
    },
  });
  return (
    <>
      <PageHead title="Series" />
      <div className="stack">
        <div className="toolbar">
          <Select label="Kind" value={kind} onChange={setKind} options={[["mail", "Mail"], ["custom", "Events"], ["purchase", "Purchases"], ["counter", "Counters"], ["system", "System"]]} />
          <Select label="Time" value={days} onChange={setDays} options={[["1", "24 hours, by hour"], ["30", "30 days, by day"], ["90", "90 days, by day"]]} />
        </div>
        <Panel pad={false}>
          <Loaded query={query} rows={8}>
            {({ lines, times }) => (lines.length === 0 ? <Empty title="Nothing was counted">Not of this kind, in this time.</Empty> : (
              <>
                <div className="panel-body"><Chart lines={lines.slice(0, mostLines)} times={times} /></div>
                <Table label="Counts" columns={columns} rows={lines} keyOf={(l) => l.name} empty={null} />
              </>
            ))}
          </Loaded>
        </Panel>
      </div>
    </>
  );
}
