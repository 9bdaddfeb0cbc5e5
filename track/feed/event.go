// Package feed reads the stored events in the order in which they were stored, for what
// carries them out of the program: webhooks and streams.
package feed

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/store"
	"sluice/user/profile"
)

// TypeOf is an event's type: its kind, a dot, and its name. A name may have dots itself.
func TypeOf(e *sluice.Event) string { return e.Kind.String() + "." + e.Name }

// event is an event as it is shown, with the names that exports and /v1/events have.
type event struct {
	ID         string          `json:"event_id"`
	Type       string          `json:"type"`
	Time       string          `json:"time"`
	Kind       string          `json:"kind"`
	Name       string          `json:"name"`
	App        string          `json:"app_id,omitempty"`
	Email      string          `json:"email,omitempty"`
	User       string          `json:"user_id,omitempty"`
	Message    string          `json:"message_id,omitempty"`
	Properties json.RawMessage `json:"properties,omitempty"`
}

// Append appends an event as a JSON object on one line. Properties that are no JSON
// object are a text.
func Append(b []byte, e *sluice.Event) []byte {
	shown := event{ID: e.ID, Type: TypeOf(e), Time: profile.TimeText(e.TimeMillis), Kind: e.Kind.String(), Name: e.Name,
		App: e.App, Email: e.Email, User: e.User, Message: e.Message}
	if e.Properties != "" {
		shown.Properties = json.RawMessage(e.Properties)
	}
	b, err := jsonscan.AppendMarshal(b, &shown)
	if err != nil {
		shown.Properties, _ = json.Marshal(e.Properties) // a text
		b, _ = jsonscan.AppendMarshal(b, &shown)         // texts alone: nothing that could fail
	}
	return b
}

// Filter chooses events. An empty part of it chooses all.
type Filter struct {
	Types     []string // KIND or KIND.NAME
	App, User string
}

// CheckTypes says what is wrong with the types of a filter.
func CheckTypes(types []string) error {
	if len(types) > store.MaxWebhookTypes {
		return fmt.Errorf("there are %d types, at most %d are possible", len(types), store.MaxWebhookTypes)
	}
	for _, t := range types {
		kind, name, named := strings.Cut(t, ".")
		k, ok := sluice.ParseEventKind(kind)
		if !ok || k == sluice.KindCounter || named && name == "" || len(name) > sluice.MaxNameBytes || !utf8.ValidString(name) {
			return fmt.Errorf("%.64q is no type of events; want mail, custom, purchase or system, or one of them, a dot and a name, such as mail.delivered", t)
		}
	}
	return nil
}

// Takes reports whether a filter chooses an event.
func (f *Filter) Takes(e *sluice.Event) bool {
	return (f.App == "" || f.App == e.App) && (f.User == "" || f.User == e.User) && f.TakesType(e.Kind, e.Name)
}

// TakesType reports whether a filter chooses events of a kind and name, whatever their
// app and user are.
func (f *Filter) TakesType(kind sluice.EventKind, name string) bool {
	return len(f.Types) == 0 || slices.ContainsFunc(f.Types, func(t string) bool {
		k, n, named := strings.Cut(t, ".")
		return k == kind.String() && (!named || n == name)
	})
}

// Quote is a text as JSON.
func Quote(s string) []byte {
	text, _ := jsonscan.Marshal(s) // a text: nothing that could fail
	return text
}
