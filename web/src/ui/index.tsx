import { AlertDialog, Dialog as RadixDialog } from "radix-ui";
import { flexRender, getCoreRowModel, getSortedRowModel, useReactTable, type CellContext, type ColumnDef, type Row, type SortingState } from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { Component, createContext, Fragment, memo, useContext, useEffect, useId, useLayoutEffect, useMemo, useRef, useState, useSyncExternalStore, type ButtonHTMLAttributes, type CSSProperties, type InputHTMLAttributes, type ReactNode, type RefObject } from "react";
import { Link } from "wouter";
import { ago, count, mostShown, shortened, visible, when } from "../format";

// The components of the dashboard: all that pages are made of. web/DESIGN.md lists them,
// and /design shows them.

export type Tone = "plain" | "good" | "warn" | "bad";

/** Button does nothing while it is busy, and keeps the keyboard, which one that is disabled loses. */
export function Button({ kind = "", className = "", busy = false, onClick, ...rest }: ButtonHTMLAttributes<HTMLButtonElement> & { kind?: "" | "primary" | "danger" | "quiet"; busy?: boolean }) {
  return <button type="button" className={`btn ${kind} ${className}`} aria-disabled={busy || undefined} onClick={busy ? (e) => e.preventDefault() : onClick} {...rest} />;
}

export function Field({ label, hint, ...rest }: InputHTMLAttributes<HTMLInputElement> & { label: string; hint?: string }) {
  const id = useId(), hintID = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input id={id} className="input" aria-describedby={hint ? hintID : undefined} {...rest} />
      {hint && <small id={hintID} className="muted">{hint}</small>}
    </div>
  );
}

/** useTyped is what is typed into the field of a search: what was searched for, until it is changed, and again when another search is shown. */
export function useTyped(asked: string): [string, (text: string) => void] {
  const [typed, setTyped] = useState({ asked, text: asked });
  if (typed.asked !== asked) setTyped({ asked, text: asked });
  return [typed.asked === asked ? typed.text : asked, (text) => setTyped({ asked, text })];
}

export function Select({ label, value, onChange, options }: { label: string; value: string; onChange: (value: string) => void; options: [string, string][] }) {
  return (
    <label className="field">
      <span>{label}</span>
      <select className="input" value={value} onChange={(e) => onChange(e.target.value)}>
        {options.map(([v, text]) => <option key={v} value={v}>{text}</option>)}
      </select>
    </label>
  );
}

export function Badge({ tone = "plain", children }: { tone?: Tone; children: ReactNode }) {
  return <span className={`badge ${tone}`}>{children}</span>;
}

const tones: Record<string, Tone> = {
  sent: "good", delivered: "good", live: "good", subscribed: "good", opted_in: "good", inside: "good", opened: "good", clicked: "good",
  waiting: "plain", queued: "plain", draft: "plain", deferred: "warn", paused: "warn", in_doubt: "warn", stopped: "warn", suppressed: "warn",
  open: "warn", done: "good", undoing: "warn", undone: "plain",
  failed: "bad", bounced: "bad", rejected: "bad", complained: "bad", unsubscribed: "warn",
};

/** toneOf is the colour of a state: colours mean states and nothing else. */
export const toneOf = (state: string): Tone => tones[state] ?? "plain";

export function State({ of }: { of: string }) {
  return <Badge tone={toneOf(of)}>{of.replaceAll("_", " ")}</Badge>;
}

/** InOneLine is whether texts stand in the rows of a long list, where none is broken. */
const InOneLine = createContext(false);

/** broken lets a text without spaces, such as an address, be broken behind each @ and point. Where that is not enough it is broken anywhere. */
function broken(text: string): ReactNode {
  if (text.length > mostShown || !/[@.]./.test(text) || /\s/.test(text)) return text;
  return text.split(/(?<=[@.])/).map((part, i) => <Fragment key={i}>{i > 0 && <wbr />}{part}</Fragment>);
}

/** Text is what others have written: it is shown as it is, turns no text around it, and is cut if it is very long, unless it is wanted whole; its title has all. */
export function Text({ of, whole = false }: { of: string; whole?: boolean }) {
  const short = whole ? visible(of) : shortened(of);
  const inOneLine = useContext(InOneLine);
  return <bdi className="wrap" title={!whole && short.length > mostShown ? visible(of) : undefined}>{inOneLine ? short : broken(short)}</bdi>;
}

const agoMillis = 10_000; // after which it is said anew how long ago something was
const agos = new Set<() => void>(); // of all that say so: one timer for them, since a long list has many
let agoTimer: ReturnType<typeof setInterval> | undefined;
let agoTold = 0;

function listenForAgo(again: () => void) {
  agos.add(again);
  agoTimer ??= setInterval(() => {
    agoTold++;
    for (const one of agos) one();
  }, agoMillis);
  return () => {
    agos.delete(again);
    if (agos.size > 0) return;
    clearInterval(agoTimer);
    agoTimer = undefined;
  };
}

/** Ago says how long ago a time was, also when the page has been open for long; its title has the time. */
export function Ago({ time }: { time: string }) {
  useSyncExternalStore(listenForAgo, () => agoTold);
  return <span className="nowrap muted" title={when(time)}>{ago(time)}</span>;
}

/** Refresh asks for a list anew. */
export function Refresh({ query }: { query: { isRefetching: boolean; refetch: () => unknown } }) {
  return <Button busy={query.isRefetching} onClick={() => void query.refetch()}>Refresh</Button>;
}

const mostSource = 200_000; // characters; more of one would hold up the browser

/** Source is a text as it came, in lines: a mail, a payload, a document. */
export function Source({ of }: { of: string }) {
  const all = of.length > mostSource ? `${of.slice(0, mostSource)}\n…` : of;
  return (
    <>
      <pre tabIndex={0} dir="ltr">{visible(all)}</pre>
      {of.length > mostSource && <p className="muted">The first {count(mostSource)} of {count(of.length)} characters are shown.</p>}
    </>
  );
}

export function PageHead({ title, children }: { title: ReactNode; children?: ReactNode }) {
  return (
    <header className="page-head">
      <h1 className="grow wrap">{title}</h1>
      {children}
    </header>
  );
}

export function Panel({ title, action, children, pad = true }: { title?: ReactNode; action?: ReactNode; children: ReactNode; pad?: boolean }) {
  return (
    <section className="panel">
      {title && <div className="panel-head"><h2>{title}</h2>{action}</div>}
      {pad ? <div className="panel-body">{children}</div> : children}
    </section>
  );
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return <div className="empty"><strong className="block">{title}</strong>{children && <p>{children}</p>}</div>;
}

const slowMillis = 10_000; // after which it is said that no answer has come

/** Slow says that an answer is late, once it is waited for so long. */
export function Slow() {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), slowMillis);
    return () => clearTimeout(timer);
  }, []);
  return late ? <div className="banner warn" role="status"><span className="grow">The server has not answered for {slowMillis / 1000} seconds. It is still waited for.</span></div> : null;
}

export function Bones({ rows = 4 }: { rows?: number }) {
  return (
    <div className="bones" role="status">
      <span className="sr">Loading</span>
      <Slow />
      {Array.from({ length: rows }, (_, i) => <span key={i} className="bone" />)}
    </div>
  );
}

export function Problem({ error, retry }: { error: unknown; retry?: () => void }) {
  return (
    <div className="banner bad" role="alert">
      <span className="grow">{error instanceof Error ? visible(error.message) : "Something went wrong."}</span>
      {retry && <Button className="small" onClick={retry}>Try again</Button>}
    </div>
  );
}

/** Caught shows its children, or what to do if one of them cannot be loaded or drawn: without it nothing at all would be left of the page. At another path it begins anew. */
export class Caught extends Component<{ path: string; children: ReactNode }, { failed: boolean }> {
  override state = { failed: false };
  static getDerivedStateFromError = () => ({ failed: true });
  override componentDidUpdate(before: { path: string }) {
    if (this.state.failed && before.path !== this.props.path) this.setState({ failed: false });
  }
  override render() {
    if (!this.state.failed) return this.props.children;
    return <Problem error={new Error("This page cannot be shown: a part of it was not loaded, or the server has another version by now. Load it again.")} retry={() => location.reload()} />;
  }
}

interface Asked<T> { data?: T; error: unknown; isPending: boolean; refetch: () => unknown }

/** Loaded shows a query: bones while it loads, its error, or its data. */
export function Loaded<T>({ query, rows, children }: { query: Asked<T>; rows?: number; children: (data: T) => ReactNode }) {
  if (query.data !== undefined) return <>{query.error ? <Problem error={query.error} retry={() => void query.refetch()} /> : null}{children(query.data)}</>;
  if (query.error) return <div className="panel-body"><Problem error={query.error} retry={() => void query.refetch()} /></div>;
  return <Bones rows={rows} />;
}

/** More has the next page of a list come, if there is one. */
export function More({ query, children = "More" }: { query: { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown }; children?: ReactNode }) {
  if (!query.hasNextPage) return null;
  return <div className="panel-body"><Button onClick={() => void query.fetchNextPage()} busy={query.isFetchingNextPage}>{query.isFetchingNextPage ? "One moment" : children}</Button></div>;
}

export function Tabs({ label, tabs, current }: { label: string; tabs: [string, string][]; current: string }) {
  return (
    <nav className="tabs" aria-label={label}>
      {tabs.map(([href, text]) => <Link key={href} href={href} aria-current={href === current ? "page" : undefined}>{text}</Link>)}
    </nav>
  );
}

/** Column says how a column is shown: hideSmall puts it into a second line of the row on a small screen, or leaves it to what the row opens ("detail"); least is how many pixels it has at least in a long list, for what must not be cut. */
export type Column<T> = ColumnDef<T> & { meta?: { num?: boolean; hideSmall?: boolean | "detail"; wide?: boolean; least?: number } };

const virtualFrom = 200; // rows
const virtualHeight = 37; // pixels of a row: --row and its line; in a long list no text is broken
const secondHeight = 22; // pixels of its second line

const classOf = <T,>(meta: Column<T>["meta"]) => [meta?.num ? "num" : "", meta?.wide ? "wide" : ""].join(" ").trim() || undefined;

const smallScreen = matchMedia("(max-width: 760px)");

function listenForSmall(again: () => void) {
  smallScreen.addEventListener("change", again);
  return () => smallScreen.removeEventListener("change", again);
}

const useSmall = () => useSyncExternalStore(listenForSmall, () => smallScreen.matches);

/** cellOf is what a column shows of a row. The table's own cells would be an object with all of its features and a component each: most of what a row that comes in costs. That component would be another one each time that a page makes its columns, and a dialog in it would be gone with what was written there. */
function cellOf<T>(column: Column<T>, row: Row<T>): ReactNode {
  const getValue = () => row.getValue(nameOf(column));
  return typeof column.cell === "function" ? column.cell({ row, getValue } as CellContext<T, unknown>) : String(getValue() ?? "");
}

const nameOf = <T,>(column: Column<T>) => column.id ?? (column as { accessorKey?: string }).accessorKey ?? String(column.header); // as the table names it

/** secondLine is what a row has in columns that a small screen has no room for: those that say something, each with its head. */
function secondLine<T>(columns: Column<T>[], row: Row<T>): ReactNode[] {
  return columns.flatMap((column) => {
    const told = "accessorKey" in column || "accessorFn" in column ? row.getValue(nameOf(column)) : true;
    if (typeof column.header !== "string" || told === undefined || told === null || told === "") return [];
    return [<div key={nameOf(column)}><span className="muted">{column.header}</span> {cellOf(column, row)}</div>];
  });
}

/** Line is a row of a table. It is drawn again only if it is another row: so scrolling draws the rows that come in, and no others. */
const Line = memo(function Line<T>({ row, columns, folded, place, top, height }: { row: Row<T>; columns: Column<T>[]; folded: Column<T>[]; place: number; top?: number; height?: number }) {
  const long = top !== undefined;
  const cells = columns.map((column) => <td key={nameOf(column)} role={long ? "cell" : undefined} className={classOf(column.meta)}>{cellOf(column, row)}</td>);
  const second = secondLine(folded, row);
  const rest = second.length > 0 && <td role={long ? "cell" : undefined} className="second" colSpan={columns.length}><div>{second}</div></td>;
  if (long) return <tr role="row" aria-rowindex={place + 2} style={{ top, height }}>{cells}{rest}</tr>;
  return <><tr className={rest ? "first" : undefined}>{cells}</tr>{rest && <tr>{rest}</tr>}</>;
}) as <T>(of: { row: Row<T>; columns: Column<T>[]; folded: Column<T>[]; place: number; top?: number; height?: number }) => ReactNode;

/** useWidths are the shares that the columns have, of the first rows of a long list: as other rows come in, no column moves. */
function useWidths<T>(table: RefObject<HTMLTableElement | null>, many: boolean, columns: Column<T>[]): string {
  const [widths, setWidths] = useState("");
  useLayoutEffect(() => {
    if (!many || widths !== "" || !table.current?.tBodies[0]?.rows.length) return; // nothing is drawn yet
    const seen = [...(table.current.tHead?.rows[0]?.cells ?? [])].map((h) => h.offsetWidth);
    setWidths(seen.map((w, i) => `minmax(${columns[i]?.meta?.least ?? 0}px, ${w}fr)`).join(" "));
  });
  useEffect(() => listenForSmall(() => setWidths("")), []);
  return many ? widths : "";
}

/** useGoOn has a list that becomes a long one, which scrolls by itself, go on at the row that was reached in the page, and not at its beginning. */
function useGoOn(table: RefObject<HTMLTableElement | null>, scroller: RefObject<HTMLDivElement | null>, rows: number, long: boolean, height: number) {
  const before = useRef(0); // rows that stood in the page
  const reached = useRef(0);
  // What is drawn is looked at before it is changed.
  const box = rows > virtualFrom && before.current > 0 ? table.current?.getBoundingClientRect() : undefined;
  const seen = box && box.top < 0 ? Math.min(1, (innerHeight - box.top) / box.height) * before.current : 0;
  useLayoutEffect(() => {
    if (box) reached.current = seen;
    before.current = rows > virtualFrom ? 0 : rows;
  });
  useLayoutEffect(() => {
    if (!long || !scroller.current || reached.current === 0) return;
    scroller.current.scrollTop = (reached.current + 2) * height - scroller.current.clientHeight; // two of the rows that have come are seen
    reached.current = 0;
  }, [long, scroller, height]);
}

/** Table sorts by its heads, and draws only what is seen of many rows. Those stand each by itself, so that one that comes in moves no other; roles say what a table says by itself. */
export function Table<T>({ label, columns, rows, empty, keyOf }: { label: string; columns: Column<T>[]; rows: T[]; empty: ReactNode; keyOf: (row: T) => string }) {
  const [sorting, setSorting] = useState<SortingState>([]);
  const table = useReactTable({ data: rows, columns, state: { sorting }, onSortingChange: setSorting, getCoreRowModel: getCoreRowModel(), getSortedRowModel: getSortedRowModel(), getRowId: keyOf });
  const small = useSmall();
  const [shown, folded] = useMemo(() => (small ? [columns.filter((c) => !c.meta?.hideSmall), columns.filter((c) => c.meta?.hideSmall === true)] : [columns, []]), [columns, small]);
  const scroller = useRef<HTMLDivElement>(null);
  const drawn = useRef<HTMLTableElement>(null);
  const all = table.getRowModel().rows;
  const many = all.length > virtualFrom;
  const height = folded.length > 0 ? virtualHeight + secondHeight : virtualHeight;
  const virtual = useVirtualizer({ count: many ? all.length : 0, getScrollElement: () => scroller.current, estimateSize: () => height, overscan: 3 });
  useEffect(() => { if (many) virtual.measure(); }, [virtual, height]);
  const widths = useWidths(drawn, many, shown);
  const long = widths !== "";
  useGoOn(drawn, scroller, all.length, long, height);
  const role = (name: string) => (long ? name : undefined);
  // The head is another one only if the columns or their order are: not at each place of scrolling.
  const head = useMemo(() => (
    <thead role={role("rowgroup")}>
      {table.getHeaderGroups().map((group) => (
        <tr key={group.id} role={role("row")}>
          {group.headers.filter((h) => shown.some((c) => nameOf(c) === h.column.id)).map((h) => {
            const sorted = h.column.getIsSorted();
            return (
              <th key={h.id} role={role("columnheader")} scope="col" className={classOf(h.column.columnDef.meta)} aria-sort={sorted === "asc" ? "ascending" : sorted === "desc" ? "descending" : undefined}>
                {h.column.getCanSort()
                  ? <button type="button" onClick={h.column.getToggleSortingHandler()}>{flexRender(h.column.columnDef.header, h.getContext())}{sorted === "asc" ? " ↑" : sorted === "desc" ? " ↓" : ""}</button>
                  : flexRender(h.column.columnDef.header, h.getContext())}
              </th>
            );
          })}
        </tr>
      ))}
    </thead>
  ), [table, columns, shown, sorting, long]);
  if (rows.length === 0) return <>{empty}</>;
  return (
    <div className={many ? "table-wrap tall" : "table-wrap"} ref={scroller} tabIndex={0} role="region" aria-label={label}>
      <InOneLine value={long}>
        <table ref={drawn} role={role("table")} aria-rowcount={all.length + 1} className={long ? "rows" : undefined} style={long ? ({ "--columns": widths } as CSSProperties) : undefined}>
          {head}
          <tbody role={role("rowgroup")} style={long ? { height: virtual.getTotalSize() } : undefined}>
            {many
              ? virtual.getVirtualItems().map(({ index, start }) => <Line key={all[index]!.id} row={all[index]!} columns={shown} folded={folded} place={index} top={long ? start : undefined} height={long ? height : undefined} />)
              : all.map((row, i) => <Line key={row.id} row={row} columns={shown} folded={folded} place={i} />)}
          </tbody>
        </table>
      </InOneLine>
    </div>
  );
}

/** Confirm asks before something that cannot simply be undone; what it does may fail. Closing it does not stop what was begun: an error opens it again. Where one question takes the place of another, each has a key: they would be one dialog, whose button does the other thing from then on. */
export function Confirm({ trigger, title, children, action, danger = true, act }: { trigger: ReactNode; title: string; children: ReactNode; action: string; danger?: boolean; act: () => Promise<unknown> }) {
  const [open, setOpen] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const run = async () => {
    setBusy(true);
    setError(undefined);
    try {
      await act();
      setOpen(false);
    } catch (e) {
      setError(e);
      setOpen(true);
    } finally {
      setBusy(false);
    }
  };
  return (
    <AlertDialog.Root open={open} onOpenChange={(o) => { setOpen(o); setError(undefined); }}>
      <AlertDialog.Trigger asChild>{trigger}</AlertDialog.Trigger>
      <AlertDialog.Portal>
        <AlertDialog.Overlay className="veil" />
        <AlertDialog.Content className="dialog">
          <AlertDialog.Title asChild><h2>{title}</h2></AlertDialog.Title>
          <AlertDialog.Description asChild><div className="muted">{children}</div></AlertDialog.Description>
          {error !== undefined && <Problem error={error} />}
          {busy && <Slow />}
          <div className="dialog-foot">
            <AlertDialog.Cancel asChild><Button>Cancel</Button></AlertDialog.Cancel>
            <Button kind={danger ? "danger" : "primary"} busy={busy} onClick={() => void run()}>{action}</Button>
          </div>
        </AlertDialog.Content>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  );
}

/** FormDialog has a form; `submit` gets its values, and the dialog closes when it is done, and not before: its answer, which may be a secret that is shown once, would be lost. */
export function FormDialog({ trigger, title, action, children, submit }: { trigger: ReactNode; title: string; action: string; children: ReactNode; submit: (values: Record<string, string>) => Promise<ReactNode | void> }) {
  const [open, setOpen] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const [done, setDone] = useState<ReactNode>();
  return (
    <RadixDialog.Root open={open} onOpenChange={(o) => { if (busy) return; setOpen(o); setError(undefined); setDone(undefined); }}>
      <RadixDialog.Trigger asChild>{trigger}</RadixDialog.Trigger>
      <RadixDialog.Portal>
        <RadixDialog.Overlay className="veil" />
        <RadixDialog.Content className="dialog" aria-describedby={undefined} onInteractOutside={(e) => { if (done) e.preventDefault(); }}>
          <RadixDialog.Title asChild><h2>{title}</h2></RadixDialog.Title>
          {done ? (
            <>{done}<div className="dialog-foot"><RadixDialog.Close asChild><Button kind="primary">Done</Button></RadixDialog.Close></div></>
          ) : (
            <form className="stack" onSubmit={(e) => {
              e.preventDefault();
              const values = Object.fromEntries([...new FormData(e.currentTarget)].map(([k, v]) => [k, String(v)]));
              setBusy(true);
              setError(undefined);
              submit(values).then((said) => (said ? setDone(said) : setOpen(false)), setError).finally(() => setBusy(false));
            }}>
              {children}
              {error !== undefined && <Problem error={error} />}
              {busy && <Slow />}
              <div className="dialog-foot">
                <RadixDialog.Close asChild><Button busy={busy}>Cancel</Button></RadixDialog.Close>
                <Button kind="primary" type="submit" busy={busy}>{action}</Button>
              </div>
            </form>
          )}
        </RadixDialog.Content>
      </RadixDialog.Portal>
    </RadixDialog.Root>
  );
}

/** Details shows in a dialog what a row has no room for. */
export function Details({ trigger, title, children }: { trigger: ReactNode; title: ReactNode; children: ReactNode }) {
  return (
    <RadixDialog.Root>
      <RadixDialog.Trigger asChild>{trigger}</RadixDialog.Trigger>
      <RadixDialog.Portal>
        <RadixDialog.Overlay className="veil" />
        <RadixDialog.Content className="dialog" aria-describedby={undefined}>
          <RadixDialog.Title asChild><h2>{title}</h2></RadixDialog.Title>
          {children}
          <div className="dialog-foot"><RadixDialog.Close asChild><Button>Close</Button></RadixDialog.Close></div>
        </RadixDialog.Content>
      </RadixDialog.Portal>
    </RadixDialog.Root>
  );
}

/** Long is a text of others that is cut if it is very long, and can be read whole by a phone and by the keyboard as well. */
export function Long({ of, name }: { of: string; name: string }) {
  if (shortened(of) === visible(of)) return <Text of={of} />;
  return <><Text of={of} /> <Details title={<Text of={name} />} trigger={<Button className="small">Show all</Button>}><Source of={of} /></Details></>;
}

/** Progress is how much of something is done, from 0 to 1. */
export function Progress({ part, label }: { part: number; label: string }) {
  const percent = Math.floor(Math.min(1, Math.max(0, part)) * 100);
  return <div className="bar-track" role="progressbar" aria-label={label} aria-valuenow={percent} aria-valuemin={0} aria-valuemax={100}><div className="bar" style={{ width: `${percent}%` }} /></div>;
}

/** FilePick takes one file, chosen or dropped. */
export function FilePick({ label, hint, pick }: { label: string; hint?: string; pick: (file: File) => void }) {
  const id = useId(), hintID = useId();
  const [over, setOver] = useState(false);
  const take = (files: FileList | null) => { if (files?.[0]) pick(files[0]); };
  return (
    <div className={over ? "drop over" : "drop"} onDragOver={(e) => { e.preventDefault(); setOver(true); }} onDragLeave={() => setOver(false)} onDrop={(e) => { e.preventDefault(); setOver(false); take(e.dataTransfer.files); }}>
      <label htmlFor={id}>{label}</label>
      <input id={id} type="file" aria-describedby={hint ? hintID : undefined} onChange={(e) => { take(e.target.files); e.target.value = ""; }} />
      {hint && <small id={hintID} className="muted">{hint}</small>}
    </div>
  );
}

/** Spark is a line without axes. */
export function Spark({ values, label }: { values: number[]; label: string }) {
  const most = Math.max(1, ...values);
  const path = values.map((v, i) => `${i === 0 ? "M" : "L"}${((i / Math.max(1, values.length - 1)) * 100).toFixed(2)},${(30 - (v / most) * 28).toFixed(2)}`).join("");
  return <svg className="spark" viewBox="0 0 100 32" preserveAspectRatio="none" role="img" aria-label={label}><path d={path} /></svg>;
}
