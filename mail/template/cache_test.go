package template

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"
	"weak"

	"sluice"
	"sluice/mail"
)

// counted is a store of templates that counts how often it is read. The store
// itself is tested in storetest; here the cache is.
type counted struct {
	mail.TemplateStore
	reads atomic.Int64
	size  int
	held  chan struct{} // reads wait for it to be closed, if it is not nil
}

func (c *counted) TemplateVersion(_ context.Context, id string, version int) (mail.TemplateVersion, error) {
	c.reads.Add(1)
	if c.held != nil {
		<-c.held
	}
	if id == "none" {
		return mail.TemplateVersion{}, &sluice.Error{Code: sluice.CodeNotFound, Index: -1}
	}
	return mail.TemplateVersion{Template: id, Version: version, Subject: "s", Text: strings.Repeat("x", c.size), Class: mail.ClassMarketing}, nil
}

// Those used last are kept, as far as there is room.
func TestCacheIsBounded(t *testing.T) {
	store := &counted{size: 1000}
	c := NewCache(store, 4*1300)
	get := func(version int, reads int64) {
		t.Helper()
		got, err := c.Get(t.Context(), "t", version)
		if err != nil || got.version != version || store.reads.Load() != reads {
			t.Fatalf("version %d: got %+v, %v, %d reads, want %d", version, got, err, store.reads.Load(), reads)
		}
	}
	for i := range 3 {
		get(i+1, int64(i+1))
	}
	get(1, 3)
	get(4, 4) // 2 was used before all others
	get(1, 4)
	get(3, 4)
	get(2, 5)
	if c.bytes > c.maxBytes || len(c.known) != c.order.Len() {
		t.Errorf("%d bytes of %d, %d known, %d in order", c.bytes, c.maxBytes, len(c.known), c.order.Len())
	}
	if _, err := c.Get(t.Context(), "t", 0); err == nil {
		t.Error("version 0 is none")
	}
	for range 2 { // what is not there is not remembered
		_, err := c.Get(t.Context(), "none", 1)
		if e, ok := errors.AsType[*sluice.Error](err); !ok || e.Code != sluice.CodeNotFound {
			t.Error(err)
		}
	}
	if store.reads.Load() != 7 {
		t.Errorf("%d reads", store.reads.Load())
	}
}

// A template larger than all room is used all the same, and kept until the next.
func TestCacheOfOneLargeTemplate(t *testing.T) {
	store := &counted{size: 1000}
	c := NewCache(store, 1)
	for range 2 {
		if _, err := c.Get(t.Context(), "t", 1); err != nil {
			t.Fatal(err)
		}
	}
	if store.reads.Load() != 1 {
		t.Errorf("%d reads", store.reads.Load())
	}
}

// Many who want a template at once read it once; who goes away does not wait.
func TestCacheReadsOnce(t *testing.T) {
	store := &counted{size: 10, held: make(chan struct{})}
	c := NewCache(store, 0)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, err := c.Get(t.Context(), "t", 1); err != nil {
				t.Error(err)
			}
		})
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Get(gone, "t", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(store.held)
	group.Wait()
	if got := store.reads.Load(); got != 1 {
		t.Errorf("%d reads", got)
	}
}

// A mail of its own is compiled once for all who get it, beside stored ones.
func TestCacheOfOwnMails(t *testing.T) {
	store := &counted{size: 10}
	c := NewCache(store, 0)
	message := &mail.TemplateVersion{Subject: "s", Text: "t", Class: mail.ClassTransactional}
	first, err := c.Compiled("m-1", message)
	again, err2 := c.Compiled("m-1", message)
	other, err3 := c.Compiled("m-2", message)
	if err := errors.Join(err, err2, err3); err != nil || first != again || first == other || len(c.known) != 2 {
		t.Errorf("%p %p %p, %d known: %v", first, again, other, len(c.known), err)
	}
	if _, err := c.Compiled("m-3", &mail.TemplateVersion{Subject: "s", Text: "{% if %}"}); err == nil || len(c.known) != 2 {
		t.Errorf("a mail that is none: %v, %d known", err, len(c.known))
	}
	if _, err := c.Get(t.Context(), "m-1", 1); err != nil || store.reads.Load() != 1 {
		t.Errorf("a stored one of the same name: %v, %d reads", err, store.reads.Load())
	}
}

func TestContent(t *testing.T) {
	message := &mail.TemplateVersion{
		Subject: "a \"b\" \u2028", Preheader: "p", From: "A <a@example.com>", HTML: "<p>\\ä\n</p>", Text: "t", Strict: true, Class: mail.ClassTransactional,
		Headers: []mail.TemplateHeader{{Name: "X-A", Value: `{{ "x" }}`}, {Name: "X-B", Value: "b"}},
	}
	for _, c := range []Content{{Template: "a", Version: 1}, {Template: "a-b", Version: 1000, Variables: `{"x":[1,"}"]}`, State: "opted_in"},
		{Mail: message, State: "subscribed", Variables: "{}"}, {Mail: &mail.TemplateVersion{Text: "t", Class: mail.ClassTransactional}}} {
		text := string(c.Append(nil))
		got, err := ParseContent(text)
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{``, `[]`, `{}`, `{"template":"a"}`, `{"template":"A","version":1}`, `{"template":"a","version":0}`,
		`{"template":"a","version":1.5}`, `{"template":"a","version":1,"variables":[]}`, `{"template":"a","version":1,"x":1}`,
		`{"template":"a","version":1,"state":"unsubscribed"}`, `{"template":"a","version":1,"mail":{}}`, `{"mail":[]}`, `{"mail":{"x":"y"}}`, `{"mail":{"html":1}}`, `{"mail":{"headers":[["a"]]}}`} {
		if got, err := ParseContent(text); err == nil {
			t.Errorf("%s: %s", text, fmt.Sprint(got))
		}
	}
}

// What is kept of a mail is its own texts, which are counted: not the batch that its send
// was read from, nor the content with its variables.
func TestCacheKeepsNoBatch(t *testing.T) {
	c := NewCache(&counted{size: 10}, 0)
	batch := strings.Repeat("x", 1<<10) + "m-1"
	own := &mail.TemplateVersion{Subject: "s", Text: "t {{ a }}", Class: mail.ClassTransactional, Headers: []mail.TemplateHeader{{Name: "X-A", Value: "b"}}}
	content := string((&Content{Mail: own, Variables: `{"a":"` + strings.Repeat("x", 1<<10) + `"}`}).Append(nil))
	parsed, err := ParseContent(content)
	if err != nil {
		t.Fatal(err)
	}
	of, in := weak.Make(unsafe.StringData(batch)), weak.Make(unsafe.StringData(content))
	made, err := c.Compiled(batch[1<<10:], parsed.Mail)
	if err != nil {
		t.Fatal(err)
	}
	batch, content, parsed = "", "", Content{}
	runtime.GC()
	if of.Value() != nil {
		t.Error("the batch is kept with the name of a mail")
	}
	if in.Value() != nil {
		t.Error("the content of a mail is kept with its texts")
	}
	got, err := made.Render(&Input{Variables: `{"a":"b"}`})
	if err != nil || got.Subject != "s" || got.Text != "t b" || len(got.Headers) != 1 || got.Headers[0] != own.Headers[0] {
		t.Errorf("got %+v, %v", got, err)
	}
	runtime.KeepAlive(c)
}

// A stored template is kept under the id that the store knows, not under the text that
// it was asked for by.
func TestCacheKeepsNoAskedID(t *testing.T) {
	c := NewCache(stored{}, 0)
	content := strings.Repeat("x", 1<<10) + "welcome"
	of := weak.Make(unsafe.StringData(content))
	if _, err := c.Get(t.Context(), content[1<<10:], 3); err != nil {
		t.Fatal(err)
	}
	content = ""
	for i := 0; of.Value() != nil && i < 100; i++ { // the goroutine that has read it may not have ended yet
		runtime.GC()
	}
	if of.Value() != nil {
		t.Error("the content is kept with the id that it names")
	}
	if c.look(cacheKey{"welcome", 3}) == nil {
		t.Error("the template is not kept")
	}
}

// stored is a store of one template, whose id is a text of its own, as databases give it.
type stored struct{ mail.TemplateStore }

func (stored) TemplateVersion(_ context.Context, id string, version int) (mail.TemplateVersion, error) {
	return mail.TemplateVersion{Template: strings.Clone(id), Version: version, Subject: "s", Text: "t", Class: mail.ClassMarketing}, nil
}
