import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError, call } from "../api/client";
import { useSession } from "../api/session";
import { when } from "../format";
import { Button, Field, FormDialog, Panel, PageHead, Text } from "../ui";

/** Account is who is signed in, whatever the role. */
export function Account() {
  const { name = "", role, ends } = useSession();
  const client = useQueryClient();
  const [told, setTold] = useState("");
  const change = async (v: Record<string, string>) => {
    if (v.next !== v.again) throw new ApiError(0, "invalid", "The two new passwords differ.");
    await call("put", "/v1/session", { body: { password: v.old, new_password: v.next } });
    await client.invalidateQueries({ queryKey: ["session"] }); // it is a new one
    setTold("The password is changed. All other sessions of this account end within 5 seconds.");
  };
  return (
    <>
      <PageHead title="Your account" />
      <div className="stack">
        {told && <div className="banner good" role="status"><span className="grow">{told}</span></div>}
        <Panel title={<Text of={name} />} action={
          <FormDialog title="Change your password" action="Change it" submit={change} trigger={<Button>Change your password</Button>}>
            <input type="hidden" name="username" autoComplete="username" value={name} />
            <Field label="Old password" name="old" type="password" autoComplete="current-password" required />
            <Field label="New password" name="next" type="password" autoComplete="new-password" minLength={12} required hint="At least 12 characters." />
            <Field label="New password again" name="again" type="password" autoComplete="new-password" required />
          </FormDialog>
        }>
          <dl className="facts">
            <dt>Role</dt><dd>{role}</dd>
            {ends && <><dt>Signed in until</dt><dd>{when(ends)}</dd></>}
            <dt>Times</dt><dd>are shown in the zone of this browser: {Intl.DateTimeFormat().resolvedOptions().timeZone}</dd>
          </dl>
        </Panel>
      </div>
    </>
  );
}
