package key

import (
	"slices"
	"strings"
)

// The roles of accounts. Each may what the one before it may.
const (
	Viewer = "viewer" // sees all but accounts, keys, settings and the audit log; changes nothing
	Editor = "editor" // changes content, people and mail
	Owner  = "admin"  // also accounts and keys
)

// Roles are all of them, the least first.
var Roles = []string{Viewer, Editor, Owner}

// reading are the permissions of calls of Braze's API that only read.
var reading = []Permission{
	UsersExportIDs, SubscriptionStatusGet, EventsList, EventsDataSeries, PurchasesProductList, KPINewUsers,
	KPIDAU, KPIMAU, SegmentsList, ScheduleBroadcasts, EmailHardBounces, EmailUnsubscribe,
}

// adminOnly are what changes who may do what, and what shows the inside of the program.
var adminOnly = []Permission{AccountsManage, Admin}

// Reads reports whether calls of a permission change nothing.
func Reads(p Permission) bool {
	return strings.HasSuffix(string(p), ":read") || slices.Contains(reading, p) || p == Admin
}

// PermissionsOf returns what a role may do, in the words of API keys; nothing if there is
// no such role.
func PermissionsOf(role string) (words []string) {
	for _, row := range Permissions {
		var may bool
		switch role {
		case Viewer:
			may = Reads(row.Word) && !slices.Contains(adminOnly, row.Word)
		case Editor:
			may = !slices.Contains(adminOnly, row.Word)
		case Owner:
			may = true
		}
		if may {
			words = append(words, string(row.Word))
		}
	}
	return words
}
