import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { call, get, type Schema } from "../api/client";
import { useMay } from "../api/session";
import { bytes, when } from "../format";
import { Button, Confirm, Empty, Loaded, More, Panel, PageHead, Refresh, Source, Table, Text, type Column } from "../ui";

type Row = Schema<"DeadLetter">;

const payloadBytes = 64 << 10; // that an answer has

function Letter({ id, done }: { id: number; done: () => void }) {
  const may = useMay("ledger:write");
  const query = useQuery({ queryKey: ["dead", id], queryFn: () => get("/v1/dead/{id}", { params: { id } }) });
  const client = useQueryClient();
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => box.current?.focus(), []); // it opens above the list, of which the end may be seen
  const act = async (what: "replay" | "drop") => {
    await (what === "replay" ? call("post", "/v1/dead/{id}/replay", { params: { id } }) : call("delete", "/v1/dead/{id}", { params: { id } }));
    await client.invalidateQueries({ queryKey: ["dead"], exact: true });
    done();
  };
  return (
    <div ref={box} tabIndex={-1}>
      <Panel title={`Dead letter ${id}`} action={may && (
        <div className="rowx">
          <Confirm danger={false} title="Replay it?" action="Replay" act={() => act("replay")} trigger={<Button className="small">Replay</Button>}>It is applied again as it came. Mend first what kept it from being applied.</Confirm>
          <Confirm title="Drop it?" action="Drop" act={() => act("drop")} trigger={<Button className="small">Drop</Button>}>It is gone for good.</Confirm>
        </div>
      )}>
        <Loaded query={query}>
          {(d) => (
            <div className="stack">
              <dl className="facts"><dt>Why</dt><dd><Text of={d.reason} /></dd><dt>From</dt><dd><Text of={d.source} /></dd><dt>Form</dt><dd>{d.form}</dd><dt>Found</dt><dd>{when(d.time)}</dd><dt>Size</dt><dd>{bytes(d.payload_bytes ?? 0)}</dd></dl>
              {d.payload === undefined
                ? <p className="muted">Its content is not shown: it may have the link of an opt-in, for which your role lacks the permission optin:write.</p>
                : <Source of={new TextDecoder().decode(Uint8Array.from(atob(d.payload), (c) => c.charCodeAt(0)))} />}
              {d.payload !== undefined && (d.payload_bytes ?? 0) > payloadBytes && <p className="muted">The first {bytes(payloadBytes)} are shown.</p>}
            </div>
          )}
        </Loaded>
      </Panel>
    </div>
  );
}

export function DeadLetters() {
  const [open, setOpen] = useState<number>();
  const query = useInfiniteQuery({ queryKey: ["dead"], initialPageParam: "", queryFn: ({ pageParam }) => get("/v1/dead", { query: { after: pageParam } }), getNextPageParam: (last) => last.next });
  const columns: Column<Row>[] = [
    { header: "Number", accessorKey: "id", cell: (c) => <Button className="small" kind="quiet" aria-expanded={open === c.row.original.id} onClick={() => setOpen(open === c.row.original.id ? undefined : c.row.original.id)}>{c.row.original.id}</Button> },
    { header: "From", accessorKey: "source", meta: { hideSmall: true }, cell: (c) => <Text of={c.row.original.source} /> },
    { header: "Why", accessorKey: "reason", meta: { wide: true }, cell: (c) => <Text of={c.row.original.reason} /> },
    { header: "Found", accessorKey: "time", meta: { num: true, hideSmall: true }, cell: (c) => <span className="nowrap muted">{when(c.row.original.time)}</span> },
  ];
  return (
    <>
      <PageHead title="Dead letters"><Refresh query={query} /></PageHead>
      <div className="stack">
        {open !== undefined && <Letter key={open} id={open} done={() => setOpen(undefined)} />}
        <Panel pad={false}>
          <Loaded query={query} rows={6}>
            {(data) => (
              <>
                <Table label="Dead letters" columns={columns} rows={data.pages.flatMap((p) => p.dead_letters)} keyOf={(d) => String(d.id)} empty={<Empty title="No dead letters">What cannot be applied is kept here with its reason, and the rest goes on.</Empty>} />
                <More query={query} />
              </>
            )}
          </Loaded>
        </Panel>
      </div>
    </>
  );
}
