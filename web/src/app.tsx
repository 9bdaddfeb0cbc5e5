import { useQueryClient } from "@tanstack/react-query";
import { DropdownMenu } from "radix-ui";
import { lazy, Suspense, useEffect, useRef, type ReactNode } from "react";
import { Link, Redirect, Route, Switch, useLocation, useSearch } from "wouter";
import { LiveProvider, useLiveState } from "./live";
import { SessionProvider, useSession, useSessionQuery, useSignOut } from "./api/session";
import { Logo } from "./logo";
import { Account } from "./pages/account";
import { DeadLetters } from "./pages/dead";
import { Setup, SignIn } from "./pages/gate";
import { ImportPage, Imports } from "./pages/imports";
import { JourneyPage, Journeys } from "./pages/journeys";
import { Mailbox, MailboxMail } from "./pages/mailbox";
import { Doubts, MessagePage, Messages } from "./pages/messages";
import { Overview } from "./pages/overview";
import { People, Person } from "./pages/people";
import { Reactions } from "./pages/reactions";
import { Settings } from "./pages/settings";
import { Suppressions } from "./pages/suppressions";
import { Badge, Bones, Button, Caught, Empty, PageHead, Panel, Problem, Text } from "./ui";

const Series = lazy(() => import("./pages/series"));
const Design = lazy(() => import("./pages/design"));

// The pages, each with its path, in the order of the menu. A page of another part comes
// in as a row here and a Route below.
const menu: [string, string, string[]?][] = [
  ["/", "Overview"],
  ["/people", "People"],
  ["/messages", "Messages"],
  ["/reactions", "Reactions"],
  ["/mailbox", "Mailbox"],
  ["/suppressions", "Suppressions"],
  ["/dead-letters", "Dead letters"],
  ["/series", "Series"],
  ["/imports", "Imports"],
  ["/journeys", "Journeys"],
  ["/settings", "Settings", ["accounts:manage", "groups:write"]],
];

/** useMenu is the menu of a role: pages of which it may see a part. */
function useMenu() {
  const { permissions } = useSession();
  return menu.filter(([, , any]) => !any || any.some((p) => permissions.includes(p)));
}

const isHere = (href: string, here: string) => (href === "/" ? here === "/" : here === href || here.startsWith(`${href}/`)) || (href === "/messages" && here === "/doubts");

function Menu() {
  const [here] = useLocation();
  return (
    <nav className="nav" aria-label="Pages">
      {useMenu().map(([href, text]) => (
        <Link key={href} href={href} aria-current={isHere(href, here) ? "page" : undefined}>{text}</Link>
      ))}
    </nav>
  );
}

function Health() {
  const { overview, error, stale } = useLiveState();
  if (error || stale) return <Badge tone="bad">no answer</Badge>;
  if (!overview) return <Badge>connecting</Badge>;
  if (!overview.ready) return <Badge tone="bad">not ready</Badge>;
  return overview.warnings.length > 0 ? <Badge tone="warn">{overview.warnings.length === 1 ? "1 warning" : `${overview.warnings.length} warnings`}</Badge> : <Badge tone="good">all well</Badge>;
}

function SmallMenu({ signOut }: { signOut: () => void }) {
  const [here] = useLocation();
  const { name } = useSession();
  const pages = useMenu();
  return (
    <header className="topbar">
      <Link href="/" className="brand"><Logo /> Sluice</Link>
      <div className="rowx">
        <Health />
        <DropdownMenu.Root modal={false}>
          <DropdownMenu.Trigger asChild><Button>Menu</Button></DropdownMenu.Trigger>
          <DropdownMenu.Content className="menu" align="end" sideOffset={4}>
            {pages.map(([href, text]) => (
              <DropdownMenu.Item key={href} asChild><Link href={href} aria-current={isHere(href, here) ? "page" : undefined}>{text}</Link></DropdownMenu.Item>
            ))}
            <DropdownMenu.Item asChild><Link href="/account" aria-current={here === "/account" ? "page" : undefined}>Your account</Link></DropdownMenu.Item>
            <DropdownMenu.Item onSelect={signOut}>Sign out <Text of={name ?? ""} /></DropdownMenu.Item>
          </DropdownMenu.Content>
        </DropdownMenu.Root>
      </div>
    </header>
  );
}

/** useArrival has a page that a link has led to begin at its top, with its title; the browser knows where one was that is gone back to. */
function useArrival(here: string) {
  const search = useSearch();
  const before = useRef(here);
  const back = useRef(false);
  useEffect(() => {
    const note = () => { back.current = true; };
    addEventListener("popstate", note);
    return () => removeEventListener("popstate", note);
  }, []);
  useEffect(() => {
    const page = menu.findLast(([href]) => isHere(href, here));
    document.title = page && page[1] !== "Overview" ? `${page[1]} · Sluice` : "Sluice";
    const gone = back.current;
    back.current = false;
    if (before.current === here) return;
    before.current = here;
    if (!gone) scrollTo(0, 0);
    // Where the link that led here is gone, the keyboard goes on in the new page.
    if (document.activeElement === document.body) document.getElementById("main")?.focus({ preventScroll: true });
  }, [here, search]);
}

function Shell({ children }: { children: ReactNode }) {
  const session = useSession();
  const signOut = useSignOut();
  const [here] = useLocation();
  useArrival(here);
  return (
    <>
      <a className="skip" href="#main">Skip to the page</a>
      <div className="shell">
        <header className="side">
          <Link href="/" className="brand"><Logo /> Sluice</Link>
          <Menu />
          <div className="side-foot">
            <div><Health /></div>
            <div className="small wrap"><Link href="/account"><Text of={session.name ?? ""} /></Link><br /><span className="muted">{session.role}</span></div>
            <div><Button className="small" busy={signOut.isPending} onClick={() => signOut.mutate()}>Sign out</Button></div>
            <div className="small muted clip">{session.version}</div>
          </div>
        </header>
        <div>
          <SmallMenu signOut={() => signOut.mutate()} />
          <main id="main" className="main" tabIndex={-1}>{signOut.error && <Problem error={signOut.error} />}<Caught path={here}><Suspense fallback={<Bones />}>{children}</Suspense></Caught></main>
        </div>
      </div>
    </>
  );
}

export function App() {
  const query = useSessionQuery();
  const [here] = useLocation();
  const client = useQueryClient();
  if (here === "/setup" && !query.data?.signed_in) return <Setup />;
  if (query.data === undefined) {
    return <main className="gate"><div className="gate-box">{query.error ? <Problem error={query.error} retry={() => void query.refetch()} /> : <Bones rows={2} />}</div></main>;
  }
  if (!query.data.signed_in) {
    if (here !== "/sign-in") return <Redirect to={here === "/" ? "/sign-in" : `/sign-in?next=${encodeURIComponent(here + location.search)}`} replace />;
    return <SignIn setup={query.data.setup} />;
  }
  return (
    <SessionProvider key={query.data.id} session={query.data}>
      <LiveProvider onSignedOut={() => void client.invalidateQueries({ queryKey: ["session"] })}>
        <Shell>
          <Switch>
            <Route path="/" component={Overview} />
            <Route path="/sign-in"><Redirect to="/" replace /></Route>
            <Route path="/setup"><Redirect to="/" replace /></Route>
            <Route path="/people" component={People} />
            <Route path="/people/:id">{({ id }) => <Person key={id} id={id} />}</Route>
            <Route path="/messages" component={Messages} />
            <Route path="/messages/:id">{({ id }) => <MessagePage key={id} id={id} />}</Route>
            <Route path="/doubts" component={Doubts} />
            <Route path="/reactions" component={Reactions} />
            <Route path="/mailbox" component={Mailbox} />
            <Route path="/mailbox/:number">{({ number }) => <MailboxMail key={number} number={number} />}</Route>
            <Route path="/suppressions" component={Suppressions} />
            <Route path="/dead-letters" component={DeadLetters} />
            <Route path="/series"><Series /></Route>
            <Route path="/imports" component={Imports} />
            <Route path="/imports/:id">{({ id }) => <ImportPage key={id} id={id} />}</Route>
            <Route path="/journeys" component={Journeys} />
            <Route path="/journeys/:id">{({ id }) => <JourneyPage key={id} id={id} />}</Route>
            <Route path="/settings"><Settings /></Route>
            <Route path="/settings/:part">{({ part }) => <Settings part={part} />}</Route>
            <Route path="/account" component={Account} />
            <Route path="/design"><Design /></Route>
            <Route><PageHead title="No such page"><Link href="/">Overview</Link></PageHead><Panel><Empty title="Nothing is here"><Text of={here} /> is no page of the dashboard. The menu has all.</Empty></Panel></Route>
          </Switch>
        </Shell>
      </LiveProvider>
    </SessionProvider>
  );
}
