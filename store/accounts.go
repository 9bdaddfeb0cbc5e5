package store

import "context"

// MaxAccounts bounds how many accounts there are.
const MaxAccounts = 1000

// AccountStore is where accounts of the dashboard are kept, their sessions, and the log
// of what sessions changed. The stores of package sqlstore are ones; what is promised of
// Store's methods holds for these.
type AccountStore interface {
	// AddAccount stores a new account. An *Error with CodeConflict: its name is taken;
	// with CodeInvalid: there are MaxAccounts.
	AddAccount(ctx context.Context, a Account) error

	// AddFirstAccount is AddAccount for the holder of a link of AddSetup, whose hash it
	// gets, at a time. In the same transaction the link is used up, with all others. An
	// *Error with CodeForbidden: there is no such link, it has ended, or there is an
	// account.
	AddFirstAccount(ctx context.Context, hash string, nowMillis int64, a Account) error

	// AddSetup stores the hash of a link that makes the first account until a time.
	AddSetup(ctx context.Context, hash string, endMillis int64) error

	// HasSetup reports whether there is a link of AddSetup, by its hash, that holds at a
	// time.
	HasSetup(ctx context.Context, hash string, nowMillis int64) (bool, error)

	// Account returns the account of a name, or an *Error with CodeNotFound.
	Account(ctx context.Context, name string) (Account, error)

	// Accounts lists all, in the order of their names.
	Accounts(ctx context.Context) ([]Account, error)

	// CountAccounts returns how many there are.
	CountAccounts(ctx context.Context) (int64, error)

	// ChangeAccount changes an account, all of it or nothing; of one that is gone nothing
	// is changed. A new password ends all sessions of the account, those too that others
	// begin with the old one at this moment. An error may come when the account is changed
	// and its sessions are not known to have ended: then it says so. An *Error with
	// CodeConflict: nobody would have the role Keep any more, or the account has not the
	// password and UpdatedMillis of Was.
	ChangeAccount(ctx context.Context, c AccountChange) error

	// DropAccount removes an account with its sessions. An *Error with CodeConflict:
	// nobody would have the role keep any more; empty: nobody need have one.
	DropAccount(ctx context.Context, id, keep string) error

	// AddSession stores the hash of a session, if its account still has the password and
	// UpdatedMillis that stand there; they are read for nothing else. An *Error with
	// CodeConflict: it has not. So no session of an old password is left by a change beside
	// it, and none by DropSessions.
	AddSession(ctx context.Context, s Session) error

	// Session returns a session with its account, ended or not, or an *Error with
	// CodeNotFound.
	Session(ctx context.Context, hash string) (Session, error)

	// DropSession ends a session, DropSessions all of an account, which counts as a change
	// of the account.
	DropSession(ctx context.Context, hash string) error
	DropSessions(ctx context.Context, account string) error

	// AddAudit notes what a session is about to change. Its id must be new, and ids
	// must rise with time. FinishAudit adds to the entry with e's id how it was answered:
	// Status, Detail, Before and After.
	AddAudit(ctx context.Context, e AuditEntry) error
	FinishAudit(ctx context.Context, e AuditEntry) error

	// Audit lists entries, the newest first, before an id (empty: all), at most limit.
	Audit(ctx context.Context, before string, limit int) ([]AuditEntry, error)
}

// AccountChange is what becomes of an account; empty texts: as it was.
type AccountChange struct {
	ID       string
	Role     string
	Password string // hashed
	Keep     string // a role that some account must have after the change; empty: none

	// Was is the account as it must be for a new password; nil: as it may be.
	Was *Account
}

// Account is somebody who signs in to the dashboard.
type Account struct {
	ID            string
	Name          string // to sign in with: in lower case
	Role          string
	Password      string // hashed, with the parameters of the hash
	CreatedMillis int64
	UpdatedMillis int64
}

// Session is an account that is signed in. Of Account, Session has no password.
type Session struct {
	Hash          string
	Account       Account
	CreatedMillis int64
	EndMillis     int64
}

// AuditEntry is a change that a session made. Status is that of the answer; 0: it was
// begun, and its answer is not known.
type AuditEntry struct {
	ID         string
	TimeMillis int64
	Account    string // the account's id
	Name       string // its name then
	Method     string
	Path       string // MaxAuditText bytes at most
	Status     int
	Detail     string // the same

	// Before and After are what of a thing differs, as JSON objects, MaxAuditView bytes at
	// most; empty: it was not there, or is not known.
	Before, After string
}

// MaxAuditText bounds Path and Detail of an entry of the audit log, MaxAuditView its Before
// and its After, in bytes.
const (
	MaxAuditText = 2000
	MaxAuditView = 4000
)
