import { keepPreviousData, useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation } from "wouter";
import { call, get, type Schema } from "../api/client";
import { useMay } from "../api/session";
import { bytes, count, shortened, span, when } from "../format";
import { startSending, stopSending, useSent } from "../sending";
import { Ago, Badge, Button, Confirm, Empty, FilePick, Loaded, More, Panel, PageHead, Problem, Progress, Refresh, State, Table, Text, type Column } from "../ui";
import { NewImport } from "./import_new";
import { RefusedLines } from "./import_refused";

type Import = Schema<"Import">;
type InFull = Schema<"ImportInFull">;

const columns: Column<Import>[] = [
  { header: "File", accessorKey: "name", cell: (c) => <Link href={`/imports/${c.row.original.id}`}><Text of={c.row.original.name} /></Link> },
  { header: "Has", id: "kind", accessorFn: (i) => i.options.kind },
  { header: "State", accessorKey: "state", cell: (c) => <State of={c.row.original.state} /> },
  { header: "Taken", accessorKey: "taken", meta: { num: true }, cell: (c) => count(c.row.original.taken) },
  { header: "Refused", accessorKey: "refused_count", meta: { num: true, hideSmall: true }, cell: (c) => count(c.row.original.refused_count) },
  { header: "Size", accessorKey: "size", meta: { num: true, hideSmall: true }, cell: (c) => bytes(c.row.original.size) },
  { header: "By", accessorKey: "by", meta: { hideSmall: true }, cell: (c) => <Text of={c.row.original.by} /> },
  { header: "Begun", accessorKey: "created", meta: { num: true, hideSmall: true }, cell: (c) => <Ago time={c.row.original.created} /> },
];

export function Imports() {
  const may = useMay("imports:write");
  const [file, setFile] = useState<File>();
  const [, go] = useLocation();
  const query = useInfiniteQuery({
    queryKey: ["imports", "list"],
    initialPageParam: "",
    queryFn: ({ pageParam }) => get("/v1/imports", { query: { before: pageParam } }),
    getNextPageParam: (last) => last.next,
  });
  const begun = (i: Import, of: File) => {
    startSending(i.id, of, 0);
    go(`/imports/${i.id}`);
  };
  return (
    <>
      <PageHead title="Imports"><Refresh query={query} /></PageHead>
      <div className="stack">
        {may && !file && <FilePick label="Choose a file of events or users, or drop it here" hint="CSV with a header, or NDJSON, not packed. You see first what it becomes." pick={setFile} />}
        {may && file && <NewImport key={`${file.name} ${file.lastModified}`} file={file} begun={begun} cancel={() => setFile(undefined)} />}
        <Panel title="Earlier imports" pad={false}>
          <Loaded query={query} rows={5}>
            {(data) => (
              <>
                <Table label="Imports" columns={columns} rows={data.pages.flatMap((p) => p.imports)} keyOf={(i) => i.id} empty={<Empty title="Nothing was imported here">Imports stay for 90 days after their last change. Those of the command sluice import are not listed.</Empty>} />
                <More query={query} />
              </>
            )}
          </Loaded>
        </Panel>
      </div>
    </>
  );
}

const useCount = (id: string, enabled: boolean) => useQuery({ queryKey: ["imports", id, "events"], queryFn: () => get("/v1/imports/{id}/events", { params: { id } }), enabled, staleTime: 10_000 });

/** WhatGoes says in the dialog what undoing removes. */
function WhatGoes({ id }: { id: string }) {
  const query = useCount(id, true);
  return (
    <>
      {query.error ? <Problem error={query.error} /> : <p>{query.data ? <><strong>{query.data.whole ? "" : "More than "}{count(query.data.events)} events</strong> are removed, also from the series.</> : "Counting the events that it has put in…"}</p>}
      <p>What else came of them stays: suppressions, openings and clicks of mails, ways of journeys, dead letters, what backups have.</p>
    </>
  );
}

function Undo({ i }: { i: InFull }) {
  const client = useQueryClient();
  const act = async () => {
    stopSending(i.id);
    for (let state: string = i.state; state !== "undone";) {
      ({ state } = await call("post", "/v1/imports/{id}/undo", { params: { id: i.id } }));
      await client.invalidateQueries({ queryKey: ["imports"] });
    }
  };
  return <Confirm title="Undo this import?" action="Undo the import" act={act} trigger={<Button>{i.state === "undoing" ? "Go on undoing" : "Undo"}</Button>}><WhatGoes id={i.id} /></Confirm>;
}

/** GoOn takes the file of an import whose sender has gone. */
function GoOn({ i }: { i: InFull }) {
  const [error, setError] = useState<Error>();
  const pick = (file: File) => {
    if (file.size !== i.size) {
      setError(new Error(`This file has ${count(file.size)} bytes, the one that is wanted has ${count(i.size)}. What has grown is imported as a file of its own: what was taken is known again.`));
      return;
    }
    startSending(i.id, file, i.next_offset);
  };
  return (
    <div className="stack-s">
      <FilePick label={`Choose ${shortened(i.name)} again, to go on`} hint={`It goes on at byte ${count(i.next_offset)}. Nothing is taken twice.`} pick={pick} />
      {error && <Problem error={error} />}
    </div>
  );
}

function Facts({ i }: { i: InFull }) {
  const events = i.options.kind === "events";
  const stored = events && i.state === "done" && i.still_to_be_stored === 0;
  const counted = useCount(i.id, stored);
  const facts: [string, string][] = [["Lines read", count(i.lines)], ["Taken", count(i.taken)], ["Still to be stored", i.still_to_be_stored > 0 ? count(i.still_to_be_stored) : "none"]];
  if (stored && counted.data?.whole) facts.push(["In the database now", count(counted.data.events)]);
  if (i.removed > 0) facts.push(["Removed again", count(i.removed)]);
  facts.push(["Has", i.options.kind]);
  if (i.options.app_id) facts.push(["App", i.options.app_id]);
  facts.push(["Begun", `${when(i.created)} by ${i.by}`]);
  if (i.ended) facts.push(["Read to its end", when(i.ended)]);
  const columns = Object.entries(i.options.columns ?? {});
  return (
    <dl className="facts">
      {facts.map(([k, v]) => <div key={k} style={{ display: "contents" }}><dt>{k}</dt><dd><Text of={v} /></dd></div>)}
      {columns.length > 0 && <><dt>Columns</dt><dd>{columns.map(([from, to]) => <div key={from}><Text of={from} /> {to === "" ? "left out" : <>as <Text of={to} /></>}</div>)}</dd></>}
    </dl>
  );
}

export function ImportPage({ id }: { id: string }) {
  const may = useMay("imports:write");
  const sent = useSent(id);
  const query = useQuery({
    queryKey: ["imports", id],
    queryFn: () => get("/v1/imports/{id}", { params: { id } }),
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) => (state.data && (state.data.state === "open" || state.data.state === "undoing" || state.data.still_to_be_stored > 0) ? 1500 : false),
  });
  return (
    <>
      {!query.data && <PageHead title="Import"><Link href="/imports">All imports</Link></PageHead>}
      <Loaded query={query} rows={8}>
        {(i) => {
          const at = Math.max(sent?.offset ?? 0, i.next_offset);
          const mayUndo = may && i.options.kind === "events" && i.state !== "undone";
          return (
            <>
              <PageHead title={<Text of={i.name} />}>
                <State of={i.state} />
                {sent?.running && <Button onClick={() => stopSending(id)}>Stop</Button>}
                {mayUndo && <Undo i={i} />}
                <Link href="/imports">All imports</Link>
              </PageHead>
              <div className="stack">
                {sent?.error && <Problem error={sent.error} />}
                {sent?.running && sent.waiting && <div className="banner warn" role="status"><span className="grow">It is tried again by itself: {sent.waiting}</span></div>}
                {i.state === "open" && !sent?.running && (may ? <GoOn i={i} /> : <div className="banner"><span className="grow">Its file is not read to the end. Whoever has it can go on.</span></div>)}
                <Panel title="How far it is">
                  <div className="stack">
                    <Progress part={at / i.size} label="Of the file" />
                    <div className="rowx between" aria-live="polite">
                      <span>{bytes(at)} of {bytes(i.size)}</span>
                      {sent?.running && sent.bytesPerSecond > 0 && <span className="muted">{bytes(sent.bytesPerSecond)} a second, {span((i.size - at) / sent.bytesPerSecond)} left</span>}
                      {i.refused_count > 0 ? <Badge tone="warn">{i.refused_count === 1 ? "1 line" : `${count(i.refused_count)} lines`} refused</Badge> : null}
                    </div>
                    <Facts i={i} />
                    {i.options.kind === "users" && <p className="muted">An import of users cannot be undone: what a profile was before is kept nowhere.</p>}
                  </div>
                </Panel>
                <RefusedLines lines={i.refused} all={i.refused_count} name={i.name} kept />
              </div>
            </>
          );
        }}
      </Loaded>
    </>
  );
}
