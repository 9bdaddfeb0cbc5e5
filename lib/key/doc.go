// Package key is what an API key is: its text, its hash, the words of its
// permissions. It is pure: where keys are kept (sqlstore) and how long a look
// is believed (api) is not its business.
package key
