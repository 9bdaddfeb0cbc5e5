package sink

import "time"

// Step is a moment of a session at which a fault may strike.
type Step int

// The steps, in the order of a session.
const (
	OnConnect  Step = iota // before the greeting
	OnHello                // EHLO, HELO
	OnStartTLS             // STARTTLS
	OnAuth                 // AUTH
	OnReset                // RSET
	OnMail                 // MAIL
	OnRcpt                 // RCPT
	OnData                 // DATA
	OnBody                 // inside a content, by DATA or BDAT
	OnEnd                  // behind the dot, or behind the last octet of BDAT LAST
	OnNoop                 // NOOP
	OnQuit                 // QUIT
)

func (s Step) String() string {
	return [...]string{"connect", "hello", "starttls", "auth", "reset", "mail", "rcpt", "data", "body", "end", "noop", "quit"}[s]
}

// At says where a session is.
type At struct {
	Step       Step
	Connection int      // of the sink, from 0
	Message    int      // how many MAIL commands the connection had before this one's; -1: none yet
	To         []string // the recipients so far; not to be kept
}

// Cut says when a connection is cut.
type Cut int

// The moments of a cut.
const (
	NoCut    Cut = iota
	Unacted      // before the step has any effect: a mail at its End is not counted
	Unsaid       // after it, before a reply: a mail at its End is counted
	Midreply     // in the middle of the reply
	Said         // behind the reply
)

// Act is what a fault does. The zero Act does nothing.
type Act struct {
	Delay time.Duration // first
	Hang  bool          // then nothing more is read or said until Drain or Close; then it goes on
	Reply string        // in place of the sink's reply: "552 5.2.2 full"; 4xx and 5xx refuse, 421 also closes
	Stay  bool          // 421 does not close
	Cut   Cut

	// Octets of the content are read before a fault of the step OnBody strikes.
	Octets int
}

// refuses reports whether the step is refused.
func (a *Act) refuses() bool { return a.Reply != "" && a.Reply[0] >= '4' }

// closes reports whether the connection ends with the reply.
func (a *Act) closes() bool {
	return a.Cut != NoCut || len(a.Reply) >= 3 && a.Reply[:3] == "421" && !a.Stay
}
