// Package users applies updates to users. It decides what a transaction of the
// store follower does to profiles, keys and addresses. It decides from what was
// read before, and writes nothing.
package users
