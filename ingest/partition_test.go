package ingest

import (
	"hash/fnv"
	"strings"
	"testing"

	"sluice"
	"sluice/lib/mime"
	"sluice/mail"
	"sluice/user"
	"sluice/user/profile"
)

// What is known of a person lies in one partition: updates, events and sends.
func TestWhatIsOfAPersonIsInOnePartition(t *testing.T) {
	const partitions = 64
	for _, person := range []string{"u1", "user 17", "Ünal", strings.Repeat("x", sluice.MaxReferenceBytes)} {
		event := sluice.Event{User: person, Email: "ann@example.com", Message: "m"}
		update := user.Key{Kind: user.KeyExternal, Name: person}
		if got, want := partitionOf(&event, "raw", partitions), update.Partition(partitions); got != want {
			t.Errorf("events of %q are in partition %d, updates in %d", person, got, want)
		}
	}
	long := strings.Repeat("A", 60) + "@" + strings.Repeat("Long.", 50) + "example" // beyond what an address can have
	for _, address := range []string{"ann@example.com", "Ann@Example.COM", "Jörg@Bücher.Example", "jo\u0308rg@example.com", "İ@example.com", long} {
		event := sluice.Event{Email: address}
		name, ok := profile.NormalEmail(address)
		if !ok {
			name = strings.ToLower(address)
		}
		want := user.Key{Kind: user.KeyEmail, Name: name}.Partition(partitions)
		if got := partitionOf(&event, "raw", partitions); got != want {
			t.Errorf("events of %q are in partition %d, updates in %d", address, got, want)
		}
		to, err := mime.ParseAddress(address)
		if err != nil {
			continue // no mail goes there
		}
		if got := mail.SendPartition(to.String(), partitions); got != want {
			t.Errorf("mail to %q (%s) is in partition %d, updates in %d", address, to.String(), got, want)
		}
	}
}

// Who names nobody is anywhere, as before.
func TestEventsOfNobodyHaveTheirPartition(t *testing.T) {
	for _, e := range []sluice.Event{{Message: "m-1"}, {}} {
		if got, want := partitionOf(&e, "raw", 64), partitionBefore(&e, "raw", 64); got != want {
			t.Errorf("%+v is in partition %d, was in %d", e, got, want)
		}
	}
}

// What our own pages have seen goes where its id says, from a file as at first; an id
// that others write so says nothing, nor does a partition that there is not.
func TestReactionsGoWhereTheirIDsSay(t *testing.T) {
	for _, tt := range []struct {
		origin sluice.Origin
		id     string
		want   int // -1: that of the message
	}{
		{sluice.OriginOwn, mail.ReactionID(61, "process", 7), 61}, {sluice.OriginOwn, mail.ReactionID(64, "process", 7), -1}, {sluice.OriginOwn, "", -1},
		{sluice.OriginOther, mail.ReactionID(61, "process", 7), -1}, {sluice.OriginTrusted, mail.ReactionID(61, "process", 7), -1},
	} {
		e := sluice.Event{Origin: tt.origin, ID: tt.id, Message: "m-1"}
		if tt.want < 0 {
			tt.want = partitionOf(&sluice.Event{Message: "m-1"}, "raw", 64)
		}
		if got := partitionOf(&e, "raw", 64); got != tt.want {
			t.Errorf("an event of origin %d and id %q goes to partition %d, want %d", tt.origin, tt.id, got, tt.want)
		}
	}
}

// The partition of a key stands in logs: it is that of every version before.
func TestKeysKeepTheirPartition(t *testing.T) {
	for kind := user.KeyExternal; kind <= user.KeyRememberedPhone; kind++ {
		for _, name := range []string{"", "u1", "ann@example.com", `["label","näme"]`, strings.Repeat("long", 300)} {
			h := fnv.New32a()
			_, _ = h.Write(append([]byte{byte(kind)}, name...))
			if got, want := (user.Key{Kind: kind, Name: name}).Partition(61), int(h.Sum32()%61); got != want {
				t.Errorf("key %d %q is in partition %d, was in %d", kind, name, got, want)
			}
		}
	}
}

func TestPartitionsAreFoundWithoutAllocation(t *testing.T) {
	events := []sluice.Event{{User: strings.Repeat("u", 100)}, {Email: "ann@example.com"}, {Email: "Ann.With.A.Long.Name@Example.COM"}, {Message: "m"}, {}}
	if n := testing.AllocsPerRun(100, func() {
		for i := range events {
			partitionOf(&events[i], "raw", 64)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
