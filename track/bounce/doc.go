// Package bounce reads the mails that report what became of a mail: delivery
// status notifications (RFC 3464), complaints (RFC 5965) and answers of programs
// (RFC 3834). It is pure: bytes in, events out. It asks nobody and keeps nothing.
//
// A report is written by a stranger. So the rules are those of a parser that
// meets anything:
//
//   - It never fails. What cannot be read is left out; a mail that reports nothing
//     is one event `unknown`. The first of several fields of one name counts.
//   - All is bounded: the mail (MaxMailBytes), its parts (maxParts, maxLevels), its
//     fields (maxFields, maxFieldBytes), recipients (maxRecipients), texts
//     (maxTextBytes) and extensions (maxMetadata). What is beyond is not read.
//   - Lines end in LF or CRLF. A multipart without a boundary is read by the first
//     line that looks like one, one without its end goes to the end. Broken base64
//     is read as far as it goes. Bytes that are no UTF-8 are ISO 8859-1.
//   - Of the mail that a report returns the head alone is read. A report inside of
//     a returned mail is not ours.
//
// Forms are tried in an order: a delivery status, a complaint, qmail's form, Exim's
// field, an answer. The order matters. Postfix writes Auto-Submitted: auto-replied
// into bounces (RFC 3834 has it for answers), and Exim adds its field to reports.
//
// What a refusal means is not decided here: mail.BounceClassOf judges it, as it
// judges the replies that our own sending gets. Only the code that it judges is
// found here. It is that of Status; where that is x.0.0, as Exim and Yahoo
// write, it is the one of the reply.
//
// # The same report twice
//
// An event's id is a hash of the mail that it is about, the recipient, the action
// and the status. A report that is read twice gives the same ids. So do repeated
// warnings about one delay. Where the mail is not known, the report's own id
// stands in for it.
//
// # Loops
//
// A report about a report gives events like any other. This is safe because nothing
// here, and nothing that reads these events, ever answers a mail. Mail that Sluice
// sends about reports (none today) has to have the null sender and Auto-Submitted
// (RFC 3834, 5; RFC 5321, 4.5.5). Then nobody answers it.
//
// # Trust
//
// Anybody can write a report. Nothing here says that a mail was ours: compare
// message_id, or the address to which the report came, before a report has an
// effect.
package bounce
