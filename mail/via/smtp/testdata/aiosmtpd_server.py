"""aiosmtpd with STARTTLS and a login, for relay tests: CERTIFICATE KEY.

Prints its port, then a line of JSON for each mail: from, to, Message-ID, the
content's SHA-256. Ends with its input.
"""
import asyncio
import email
import hashlib
import json
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult


class Handler:
    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("nobody@"):
            return "550 5.1.1 nobody here"
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 Ok"

    async def handle_DATA(self, server, session, envelope):
        message = email.message_from_bytes(envelope.content)
        print(json.dumps({
            "from": envelope.mail_from, "to": envelope.rcpt_tos, "id": message["Message-ID"],
            "sum": hashlib.sha256(envelope.content).hexdigest(),
            "tls": session.ssl is not None, "user": (session.auth_data or b"").decode(),
        }), flush=True)
        return "250 2.0.0 Ok: queued as 4711"


def login(server, session, envelope, mechanism, data):
    ok = (data.login, data.password) == (b"me", "geheim w\u00f6rd".encode())
    return AuthResult(success=ok, handled=False, auth_data=data.login)


async def main():
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    server = await asyncio.get_running_loop().create_server(
        lambda: SMTP(Handler(), hostname="aiosmtpd.test", enable_SMTPUTF8=True, tls_context=context, require_starttls=True,
                     authenticator=login, auth_required=True), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run(main())
