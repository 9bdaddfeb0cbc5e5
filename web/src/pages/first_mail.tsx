import { useQueryClient } from "@tanstack/react-query";
import { Link } from "wouter";
import { call } from "../api/client";
import { Button, Field, FormDialog } from "../ui";

/** FirstMail has a mail written and sent, where all mail goes into the built-in mailboxes: nothing else has to be set up for it. */
export function FirstMail() {
  const client = useQueryClient();
  return (
    <FormDialog title="Send a first mail" action="Send it" trigger={<Button className="small" kind="primary">Send a first mail</Button>}
      submit={async ({ from, to, subject, text }) => {
        await call("post", "/v1/messages", { body: { from: from!, to: to!, subject: subject!, text: text! } });
        await client.invalidateQueries({ queryKey: ["mailbox"] });
        return <p>It is in the built-in mailbox within a second. <Link href="/mailbox">Read it there</Link></p>;
      }}>
      <Field label="From" name="from" defaultValue="shop@example.com" required autoComplete="off" />
      <Field label="To" name="to" defaultValue="ann@example.com" required autoComplete="off" hint="Nobody gets it: it is kept in the built-in mailbox." />
      <Field label="Subject" name="subject" defaultValue="A first mail" required autoComplete="off" />
      <Field label="Text" name="text" defaultValue="On its way" required autoComplete="off" />
    </FormDialog>
  );
}
