import { useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent, type ReactNode } from "react";
import { ApiError, call } from "../api/client";
import { forgetOthers, tellTabs } from "../api/session";
import { Logo } from "../logo";
import { Button, Field, Problem, Slow } from "../ui";

function Gate({ title, text, action, children, submit }: { title: string; text: ReactNode; action: string; children: ReactNode; submit: (values: FormData) => Promise<void> }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const onSubmit = (e: FormEvent<HTMLFormElement>) => {
    e.preventDefault();
    setBusy(true);
    setError(undefined);
    submit(new FormData(e.currentTarget)).catch(setError).finally(() => setBusy(false));
  };
  return (
    <main className="gate">
      <div className="gate-box">
        <div className="stack-s">
          <span className="brand"><Logo /> Sluice</span>
          <h1>{title}</h1>
          <p className="muted">{text}</p>
        </div>
        <form onSubmit={onSubmit}>
          {children}
          {error !== undefined && <Problem error={error} />}
          {busy && <Slow />}
          <Button kind="primary" type="submit" busy={busy}>{busy ? "One moment" : action}</Button>
        </form>
      </div>
    </main>
  );
}

function useEnter() {
  const client = useQueryClient();
  return async () => {
    forgetOthers(client);
    await client.resetQueries({ queryKey: ["session"] });
    tellTabs();
    const next = new URLSearchParams(location.search).get("next");
    // A path of this server alone: "//host" would be another.
    const path = next && /^\/[a-z]/.test(next) ? next : "/";
    history.replaceState(null, "", path);
  };
}

export function SignIn({ setup }: { setup: boolean }) {
  const enter = useEnter();
  return (
    <Gate
      title="Sign in"
      text={setup ? "There is no account yet. The program printed a link when it started, which makes the first one." : "With your account of this dashboard."}
      action="Sign in"
      submit={async (values) => {
        await call("post", "/v1/session", { body: { name: values.get("name"), password: values.get("password") } });
        await enter();
      }}
    >
      <Field label="Name" name="name" autoComplete="username" autoFocus required />
      <Field label="Password" name="password" type="password" autoComplete="current-password" required />
    </Gate>
  );
}

export function Setup() {
  const enter = useEnter();
  // Read once, and taken out of the address bar: the history shall not keep it.
  const [token] = useState(() => {
    const found = location.hash.slice(1);
    if (found) history.replaceState(null, "", "/setup");
    return found;
  });
  if (!token) {
    return (
      <main className="gate">
        <div className="gate-box stack">
          <span className="brand"><Logo /> Sluice</span>
          <h1>Make the first account</h1>
          <p>This needs the whole link that the program printed when it started: open that. While there is no account, each start prints a new one.</p>
          <a href="/sign-in">Sign in with an account</a>
        </div>
      </main>
    );
  }
  return (
    <Gate
      title="Make the first account"
      text="It is an admin: it makes the others. The link works once."
      action="Make the account"
      submit={async (values) => {
        if (values.get("password") !== values.get("again")) throw new ApiError(0, "invalid", "The two passwords differ.");
        await call("post", "/v1/setup", { body: { token, name: values.get("name"), password: values.get("password") } });
        await enter();
      }}
    >
      <Field label="Name" name="name" autoComplete="username" placeholder="ann@example.com" autoFocus required />
      <Field label="Password" name="password" type="password" autoComplete="new-password" minLength={12} hint="At least 12 characters." required />
      <Field label="Password again" name="again" type="password" autoComplete="new-password" required />
    </Gate>
  );
}
