// Package users applies updates to users: what a transaction of the store
// follower does to profiles, keys and addresses is decided here, out of what
// was read before, and nothing is written.
package users
