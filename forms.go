package sluice

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
)

// Forms are the newest forms of what stands in Redis that a program reads: what it
// meets beyond them was written by a newer program.
//
// Versions run side by side like this. Each process says with its beats what it
// reads. A process writes a form that is new in its version only when all that live
// read it; before its first one it notes in Redis that the form is in use. A
// program that does not read what is in use does not start, and one that runs
// gives up its leases: what it cannot read waits for one that can. So the last
// process of the older version decides when the new forms begin, and until then
// there is a way back.
type Forms struct {
	Item    ItemKind // the kinds of items up to this one
	Update  byte     // the operations on users up to this one
	Scripts int      // version of the structures that scripts have in common
}

// scriptsVersion is raised when a script leaves something in Redis that scripts
// of the version before cannot work on. 2: sends name the account that they are
// counted in while they wait (Send.Account), and record.lua takes them out of it.
const scriptsVersion = 2

// NewestUserOp is the highest number of an operation on users. The operation is the
// first byte of an item of the kind ItemUser.
const NewestUserOp = 15

// KnownForms are those that this program reads and writes.
func KnownForms() Forms {
	f := Forms{Item: newestItem, Update: NewestUserOp, Scripts: scriptsVersion}
	if PretendNext {
		f.Item = ItemNext
	}
	return f
}

// Cover reports whether a program that reads these forms reads others too.
func (f Forms) Cover(other Forms) bool {
	return f.Item >= other.Item && f.Update >= other.Update && f.Scripts >= other.Scripts
}

// String is the form in which processes tell each other: "10.10.1".
func (f Forms) String() string { return fmt.Sprintf("%d.%d.%d", f.Item, f.Update, f.Scripts) }

// ParseForms reads what String has written; anything else is no forms at all, as
// of a program that does not say what it reads.
func ParseForms(text string) (f Forms) {
	if n, err := fmt.Sscanf(text, "%d.%d.%d", &f.Item, &f.Update, &f.Scripts); n != 3 || err != nil {
		return Forms{}
	}
	return f
}

// ItemNext is the kind that a program of the next version writes for events, in
// tests of upgrades (PretendNext): a kind that no other program knows.
const ItemNext = newestItem + 1

// JourneyForms are what journeys write: mail that says of which journey it is, contexts,
// and updates of people who enter, move to another partition, or open mail. They stay as they
// are; nobody moves where they may not be written.
var JourneyForms = Forms{Item: ItemContext, Update: 15, Scripts: 2}

// mayWrite are the newest forms that this program may write; nil: it has not heard yet.
var mayWrite atomic.Pointer[Forms]

// WriteForms lets this program write these forms, beside those that it may write already.
func WriteForms(f Forms) {
	for {
		had := mayWrite.Load()
		more := f
		if had != nil {
			more = Forms{max(had.Item, f.Item), max(had.Update, f.Update), max(had.Scripts, f.Scripts)}
		}
		if mayWrite.CompareAndSwap(had, &more) {
			return
		}
	}
}

// WriteNewForms lets this program write the forms that are new in its version:
// accounts of sends, and that of PretendNext.
func WriteNewForms() { WriteForms(KnownForms()) }

// Writes reports whether this program may write these forms.
func Writes(f Forms) bool {
	may := mayWrite.Load()
	return may != nil && may.Cover(f)
}

// WritesNewForms reports whether it may write all that it knows.
func WritesNewForms() bool { return Writes(KnownForms()) }

// Beyond returns the first form in a batch that these forms do not have: ok is
// false then, and found what it takes to read it. What is broken is nobody's form.
func (f Forms) Beyond(batch []byte) (found Forms, ok bool) {
	if len(batch) == 0 || batch[0] != BatchVersion {
		return Forms{}, true // the store says what is wrong with it
	}
	for rest := batch[1:]; len(rest) >= ItemHeaderBytes; {
		n := uint64(binary.LittleEndian.Uint32(rest))
		if n < 1 || n > uint64(len(rest)-4) {
			break
		}
		kind := ItemKind(rest[4])
		if kind > f.Item {
			return Forms{Item: kind}, false
		}
		if kind == ItemUser && n > 1 && rest[ItemHeaderBytes] > f.Update {
			return Forms{Update: rest[ItemHeaderBytes]}, false
		}
		rest = rest[4+n:]
	}
	return Forms{}, true
}
