// Package journey has the words of journeys: what Redis and the database keep of a
// person who is in one, and the names that the store looks for. What people write is
// package plan.
package journey
