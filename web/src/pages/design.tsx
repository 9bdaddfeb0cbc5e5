import { Badge, Bones, Button, Confirm, Empty, Field, FilePick, Panel, PageHead, Problem, Progress, Select, Spark, State, Table } from "../ui";

// Every token and component on one page, which the menu does not have: to look at after a
// change, in both schemes and at both widths.

const colours = ["bg", "surface", "raised", "hover", "line", "line-strong", "text", "muted", "accent", "accent-bg", "accent-soft", "good", "good-soft", "warn", "warn-soft", "bad", "bad-soft", "bad-bg"];
const sizes = ["t-xs", "t-s", "t-m", "t-l", "t-xl", "t-2xl"];
const spaces = ["s1", "s2", "s3", "s4", "s5", "s6", "s7"];

export default function Design() {
  return (
    <>
      <PageHead title="Design" />
      <div className="stack">
        <Panel title="Colours"><div className="swatches">{colours.map((c) => <div key={c} className="stack-s"><div className="swatch" style={{ background: `var(--${c})` }} /><span className="small mono">--{c}</span></div>)}</div></Panel>
        <Panel title="Type"><div className="stack-s">{sizes.map((s) => <div key={s} style={{ fontSize: `var(--${s})` }}>--{s} 0123456789 The mail to Ann</div>)}</div></Panel>
        <Panel title="Space"><div className="stack-s">{spaces.map((s) => <div key={s} className="rowx"><span className="small mono">--{s}</span><div className="bar" style={{ width: `var(--${s})` }} /></div>)}</div></Panel>
        <Panel title="Buttons"><div className="rowx"><Button kind="primary">Primary</Button><Button>Plain</Button><Button kind="danger">Danger</Button><Button kind="quiet">Quiet</Button><Button disabled>Disabled</Button><Button className="small">Small</Button><Confirm title="Stop it?" action="Stop" act={() => Promise.reject(new Error("It is refused."))} trigger={<Button>Asks first</Button>}>What follows from it.</Confirm></div></Panel>
        <Panel title="Fields"><div className="toolbar"><Field label="Name" placeholder="ann@example.com" hint="A hint." /><Select label="State" value="a" onChange={() => undefined} options={[["a", "Any"], ["b", "Sent"]]} /></div></Panel>
        <Panel title="A file, and how far it is"><div className="stack"><FilePick label="A file, or drop it here" hint="A hint." pick={() => undefined} /><Progress part={0.4} label="An example" /></div></Panel>
        <Panel title="States"><div className="rowx">{["sent", "waiting", "deferred", "in_doubt", "suppressed", "failed", "bounced", "live", "paused", "draft"].map((s) => <State key={s} of={s} />)}<Badge>plain</Badge></div></Panel>
        <Panel title="Banners"><div className="stack-s"><div className="banner">A note.</div><div className="banner good">All is well.</div><div className="banner warn">Look here soon.</div><Problem error={new Error("The database does not answer.")} retry={() => undefined} /></div></Panel>
        <dl className="figures">{[["Sent", 1234567], ["Delivered", 1200000], ["Bounced", 321], ["Complained", 2]].map(([n, v]) => <div className="figure" key={n}><dt>{n}</dt><dd>{v}<Spark values={[1, 3, 2, 5, 4, 8, 6]} label={`${n} by hour`} /></dd></div>)}</dl>
        <Panel title="Table" pad={false}><Table label="An example" columns={[{ header: "To", accessorKey: "to" }, { header: "Count", accessorKey: "n", meta: { num: true } }]} rows={[{ to: "ann@example.com", n: 12 }, { to: "bob@example.com", n: 3 }]} keyOf={(r: { to: string; n: number }) => r.to} empty={null} /></Panel>
        <Panel title="Empty, loading" pad={false}><Empty title="Nothing is here">And why.</Empty><Bones rows={3} /></Panel>
      </div>
    </>
  );
}
