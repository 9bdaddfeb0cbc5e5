// Package account knows who may sign in to the dashboard: accounts with passwords and
// roles, and their sessions.
package account
