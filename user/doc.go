// Package user holds the words of people: ids, the keys that name one, updates and
// their items, segments, and what is asked of the store that keeps users (Store).
// The packages below it do the work: users applies updates, profile reads and writes
// what is known of one, rule and segment choose, consent asks.
package user
