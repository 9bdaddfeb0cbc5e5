import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation, useSearch } from "wouter";
import { get, type Schema } from "../api/client";
import { useMay } from "../api/session";
import { bytes, shortened, when } from "../format";
import { Ago, Button, Empty, Field, Loaded, More, Panel, PageHead, Refresh, Source, Table, Text, useTyped, type Column } from "../ui";
import { FirstMail } from "./first_mail";

type Mail = Schema<"MailboxMail">;

const columns: Column<Mail>[] = [
  { header: "To", accessorKey: "to", cell: (c) => <div className="clip"><Text of={c.row.original.to} /></div> },
  { header: "Subject", accessorKey: "subject", meta: { wide: true }, cell: (c) => <Link href={`/mailbox/${c.row.original.number}`}><Text of={c.row.original.subject || "(no subject)"} /></Link> },
  { header: "From", accessorKey: "from", meta: { hideSmall: true }, cell: (c) => <div className="clip muted"><Text of={c.row.original.from || "<>"} /></div> },
  { header: "Size", accessorKey: "bytes", meta: { num: true, hideSmall: true }, cell: (c) => <span className="nowrap">{bytes(c.row.original.bytes)}</span> },
  { header: "Time", accessorKey: "time", meta: { num: true }, cell: (c) => <Ago time={c.row.original.time} /> },
];

export function Mailbox() {
  const to = new URLSearchParams(useSearch()).get("to") ?? "";
  const [, go] = useLocation();
  const [text, setText] = useTyped(to);
  const maySend = useMay("messages:send");
  const query = useInfiniteQuery({
    queryKey: ["mailbox", to],
    initialPageParam: 0,
    queryFn: ({ pageParam }) => get("/v1/mailboxes", { query: { to, before: pageParam || undefined, limit: 100 } }),
    getNextPageParam: (last) => last.next,
  });
  return (
    <>
      <PageHead title="Mailbox"><Refresh query={query} /></PageHead>
      <div className="stack">
        <form className="toolbar" role="search" onSubmit={(e) => { e.preventDefault(); go(text.trim() ? `/mailbox?to=${encodeURIComponent(text.trim())}` : "/mailbox"); }}>
          <Field label="To the address" type="search" value={text} onChange={(e) => setText(e.target.value)} placeholder="ann@example.com" />
          <Button kind="primary" type="submit">Find</Button>
        </form>
        <Panel pad={false}>
          <Loaded query={query} rows={8}>
            {(data) => (
              <>
                <Table label="Mails in the mailbox" columns={columns} rows={data.pages.flatMap((p) => p.mails)} keyOf={(m) => String(m.number)} empty={<><Empty title={to ? "No mail to this address is kept" : "The mailbox is empty"}>Until a route is configured, mail comes here instead of leaving. Each process keeps its newest mails, in memory.</Empty>{maySend && !to && <div className="panel-body"><FirstMail /></div>}</>} />
                <More query={query}>Older</More>
              </>
            )}
          </Loaded>
        </Panel>
      </div>
    </>
  );
}

export function MailboxMail({ number }: { number: string }) {
  const query = useQuery({ queryKey: ["mailbox", "one", number], queryFn: () => get("/v1/mailboxes/{number}", { params: { number } }), gcTime: 0 }); // a process that begins anew gives its first mail the same number
  const [source, setSource] = useState(false);
  return (
    <>
      {!query.data && <PageHead title="Mail"><Link href="/mailbox">Mailbox</Link></PageHead>}
      <Loaded query={query} rows={8}>
        {(mail) => (
          <>
            <PageHead title={<Text of={mail.subject || "(no subject)"} />}><Link href="/mailbox">Mailbox</Link></PageHead>
            <div className="stack">
              <Panel>
                <dl className="facts">
                  <dt>To</dt><dd><Text of={mail.to} /></dd><dt>From</dt><dd><Text of={mail.from || "<>"} /></dd><dt>Time</dt><dd>{when(mail.time)}</dd>
                  <dt>Tags</dt><dd><Text of={(mail.tags ?? []).join(", ") || "–"} /></dd><dt>Message</dt><dd><Link href={`/messages/${mail.send.split(".")[0]}`}>What became of it</Link></dd>
                </dl>
              </Panel>
              <Panel title={source ? "Source" : "Mail"} action={<Button className="small" onClick={() => setSource(!source)}>{source ? "Show the mail" : "Show the source"}</Button>} pad={false}>
                {source
                  ? <div className="panel-body"><Source of={new TextDecoder().decode(Uint8Array.from(atob(mail.raw ?? ""), (c) => c.charCodeAt(0)))} /></div>
                  : <iframe key={mail.send} className="mail-frame" title={`The mail to ${shortened(mail.to)}`} sandbox="" referrerPolicy="no-referrer" src={`/v1/mailboxes/${mail.number}/view`} />}
              </Panel>
            </div>
          </>
        )}
      </Loaded>
    </>
  );
}
