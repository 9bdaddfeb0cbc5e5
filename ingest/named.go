package ingest

import (
	"strings"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/store"
	"sluice/user"
	"sluice/user/profile"
	"sluice/user/users"
)

// UsersOf returns what a dead letter calls the users that it is about. What
// cannot be read of it names nobody.
func UsersOf(l *sluice.DeadLetter) []string {
	batch := l.Payload
	switch l.Form {
	case sluice.FormElement:
		return elementUsers(string(l.Payload))
	case sluice.FormItem:
		batch = append(sluice.NewBatch(len(l.Payload)), l.Payload...)
	case sluice.FormBatch:
	case sluice.FormCommand:
		return commandUsers(l.Payload)
	default:
		return nil
	}
	return batchUsers(batch)
}

// batchUsers are the users in a batch of items.
func batchUsers(batch []byte) []string {
	r, err := sluice.ReadBatch(batch)
	if err != nil {
		return nil
	}
	var found []string
	for r.Next() {
		if named := kindOf(r.Item.Kind).named; named != nil {
			found = append(found, named(r.Item.Payload)...)
		}
	}
	return found
}

// commandUsers are the users in a command of Redis that was refused
// (commit.lua). The command is an array of texts in MessagePack; some are
// batches and some single items.
func commandUsers(payload []byte) (names []string) {
	for _, word := range packedTexts(payload) {
		if len(word) > 0 && word[0] == sluice.BatchVersion {
			names = append(names, batchUsers(word)...)
		}
		names = append(names, batchUsers(append(sluice.NewBatch(len(word)), word...))...)
	}
	return names
}

// packedTexts reads an array of texts in MessagePack, up to where it is broken.
func packedTexts(b []byte) (texts [][]byte) {
	cut := func(n int) (head []byte) {
		if n < 0 || n > len(b) {
			n = len(b)
		}
		head, b = b[:n], b[n:]
		return head
	}
	size := func(width int) (n int) {
		for _, c := range cut(width) {
			n = n<<8 | int(c)
		}
		return n
	}
	switch kind := size(1); kind {
	case 0xdc:
		cut(2)
	case 0xdd:
		cut(4)
	}
	for len(b) > 0 {
		switch kind := size(1); {
		case kind&0xe0 == 0xa0:
			texts = append(texts, cut(kind&0x1f))
		case kind == 0xd9 || kind == 0xc4:
			texts = append(texts, cut(size(1)))
		case kind == 0xda || kind == 0xc5:
			texts = append(texts, cut(size(2)))
		case kind == 0xdb || kind == 0xc6:
			texts = append(texts, cut(size(4)))
		default:
			return texts
		}
	}
	return texts
}

// updateUsers are the external ids, numbers and addresses in an update.
func updateUsers(u *user.Update) []string {
	var names []string
	add := func(k user.Key) {
		switch k.Kind {
		case user.KeyExternal, user.KeyUser:
			names = append(names, k.Name)
		case user.KeyEmail:
			names = append(names, store.AddressErasure(k.Name))
		}
	}
	add(u.Key)
	if u.IfGone {
		add(u.Address)
	}
	switch u.Op {
	case user.OpIdentify:
		names = append(names, u.Name)
	case user.OpMerge:
		if k, ok := users.MergeKey(u.Name); ok {
			add(k)
		}
	case user.OpAbsorb:
		names = append(names, u.Name)
		if p, err := profile.Parse(u.Body); err == nil {
			names = append(append(names, p.ExternalID), p.Former...)
		}
	}
	return names
}

// elementUsers are the users of an element of a list.
func elementUsers(element string) (names []string) {
	m := jsonscan.Read(element)
	for m.Next() {
		switch to, _ := fieldOf(m.Key); {
		case !usable(to, &m.Value):
		case to == placeUser:
			names = append(names, m.Value.Text())
		case to == placeEmail:
			names = append(names, store.AddressErasure(strings.ToLower(m.Value.Text())))
		}
	}
	return names
}
