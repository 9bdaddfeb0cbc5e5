# Hands in mail by smtplib: HOST PORT KEY CERTIFICATE COUNT. Without a certificate
# there is no TLS.
import smtplib, ssl, sys, time
from email.message import EmailMessage

host, port, key, certificate, count = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])


def again(call):
    # The database of a busy machine may not tell of a key in time: a client is to come again.
    end = time.monotonic() + 240
    while True:
        try:
            return call()
        except smtplib.SMTPResponseException as e:
            if b"Keys cannot be checked now" not in e.smtp_error or time.monotonic() > end:
                raise
            time.sleep(0.1)


with smtplib.SMTP(host, port, timeout=240) as s:
    if certificate:
        s.starttls(context=ssl.create_default_context(cafile=certificate))
    again(lambda: s.login("python", key))
    for i in range(count):
        m = EmailMessage()
        m["From"], m["To"], m["Subject"] = "Jürgen <shop@example.com>", f"smtplib-{i}@example.com, smtplib-cc@example.com", f"Grüße {i}"
        m["X-Sluice-Tag"], m["X-Sluice-Priority"] = "smtplib", "high"
        m.set_content("Hello\n.\n..two dots\nend, öäü\n" + "x" * 5000 + "\n")
        m.add_alternative("<p>Hello €</p>", subtype="html")
        m.add_attachment(bytes(range(256)) * 40, maintype="application", subtype="octet-stream", filename="ü.bin")
        if refused := again(lambda: s.send_message(m)):
            sys.exit(f"refused: {refused}")
    try:
        again(lambda: s.sendmail("shop@example.com", ["smtplib-x@example.com"], "From: shop@example.com\r\nX-Sluice-Class: spam\r\n\r\nhi\r\n"))
        sys.exit("a wrong class was taken")
    except smtplib.SMTPDataError as e:
        assert e.smtp_code == 550 and b"X-Sluice-Class" in e.smtp_error, e
print("done")
