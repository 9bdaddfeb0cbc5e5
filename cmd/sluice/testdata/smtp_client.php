<?php
// Hands in mail by symfony/mailer: HOST PORT KEY CERTIFICATE COUNT. The
// certificate is given to PHP itself. Standard error gets how many milliseconds
// a mail took.
require '/usr/share/php/Symfony/Component/Mailer/autoload.php';

use Symfony\Component\Mailer\Exception\TransportExceptionInterface;
use Symfony\Component\Mailer\Mailer;
use Symfony\Component\Mailer\Transport;
use Symfony\Component\Mime\Email;

[, $host, $port, $key, $certificate, $count] = $argv;
$dsn = $key === '' ? "smtp://$host:$port" : "smtp://php:$key@$host:$port";
$mailer = new Mailer(Transport::fromDsn($dsn));
// The database of a busy machine may not tell of a key in time: a client is to come again.
function send(Mailer $mailer, Email $mail): void
{
    for ($end = time() + 240; ; usleep(100000)) {
        try {
            $mailer->send($mail);

            return;
        } catch (TransportExceptionInterface $e) {
            if (!str_contains($e->getMessage(), 'Keys cannot be checked now') || time() > $end) {
                throw $e;
            }
        }
    }
}

$started = 0;
for ($i = -1; $i < $count; $i++) { // the first one connects
    if ($i === 0) {
        $started = hrtime(true);
    }
    $mail = (new Email())->from('"Jürgen" <shop@example.com>')->to("symfony-$i@example.com")->bcc('symfony-bcc@example.com')->subject("Grüße $i")
        ->text("Hello\n.\n..two dots\nend, öäü\n")->html(str_repeat('<p>Hello €</p>', 500));
    $mail->getHeaders()->addTextHeader('X-Sluice-Tag', 'symfony');
    send($mailer, $mail);
}
echo "done\n";
fprintf(STDERR, "%.2f\n", (hrtime(true) - $started) / 1e6 / $count);
