// Package hook reads what mail providers post about mail after it left: bounces,
// deliveries, opens, clicks, complaints. Each provider is a row of Providers, with a
// file of its own.
//
// A request is verified first, over its raw body (Provider.Verify), and parsed then
// (Provider.Parse). Parsing never refuses a body because of one element. What cannot be
// read, or has a type that nobody knows, becomes an event `unknown`. So a provider has
// no reason to post the same again for hours.
//
// The vocabulary is that of django-anymail's signals: types, reject reasons, and the
// attributes of Event. Types are the words of package sluice. What one provider calls
// otherwise than all others is in its own file, the rest in ingest.MailWord.
package hook
