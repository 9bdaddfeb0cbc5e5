package template

import (
	lru "container/list"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"sluice/mail"
)

// DefaultCacheBytes bounds what is kept of compiled templates.
const DefaultCacheBytes = 32 << 20

// Cache keeps compiled templates: those used last, up to a number of bytes, and
// always the last one. A version never changes, so nothing in it grows old. Its
// methods may be called by many goroutines at once.
type Cache struct {
	store    mail.TemplateStore
	maxBytes int
	loads    singleflight.Group

	mu    sync.Mutex // guards what follows
	bytes int
	order *lru.List // of *Template, the one used last in front
	known map[cacheKey]*lru.Element
}

type cacheKey struct {
	id      string
	version int
}

// NewCache returns a cache of the templates of a store; maxBytes 0 means
// DefaultCacheBytes.
func NewCache(store mail.TemplateStore, maxBytes int) *Cache {
	if maxBytes <= 0 {
		maxBytes = DefaultCacheBytes
	}
	return &Cache{store: store, maxBytes: maxBytes, order: lru.New(), known: make(map[cacheKey]*lru.Element)}
}

// loadTimeout bounds the reading of a template, for which several may wait.
const loadTimeout = 10 * time.Second

// Get returns a version of a template, from 1, compiled. The error is the store's, or
// an *Error of Compile: a later program has written the template.
func (c *Cache) Get(ctx context.Context, id string, version int) (*Template, error) {
	if version < 1 {
		return nil, fmt.Errorf("read template %s: version %d does not exist; set the version when the mail is accepted", id, version)
	}
	key := cacheKey{id, version}
	if t := c.look(key); t != nil {
		return t, nil
	}
	// Of all who miss it at once, one reads and compiles it.
	loaded := c.loads.DoChan(fmt.Sprintf("%s %d", id, version), func() (loaded any, err error) {
		defer func() { // in this goroutine a panic would end the program
			if p := recover(); p != nil {
				err = fmt.Errorf("compile version %d of template %s: panic: %v", version, id, p)
			}
		}()
		if t := c.look(key); t != nil {
			return t, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
		defer cancel()
		v, err := c.store.TemplateVersion(ctx, id, version)
		if err != nil {
			return nil, err
		}
		t, err := Compile(&v)
		if err != nil {
			return nil, fmt.Errorf("compile version %d of template %s: %w", version, id, err)
		}
		c.add(t)
		return t, nil
	})
	select {
	case result := <-loaded:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*Template), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("read template %s: %w", id, context.Cause(ctx))
	}
}

// Compiled returns a mail that is no stored template, compiled. It is kept under
// its name, which is no other mail's, as long as stored ones are. The error is an
// *Error.
func (c *Cache) Compiled(name string, v *mail.TemplateVersion) (*Template, error) {
	key := cacheKey{id: name} // stored ones have versions from 1
	if t := c.look(key); t != nil {
		return t, nil
	}
	own := ownTexts(v)
	t, err := Compile(&own)
	if err != nil {
		return nil, err
	}
	t.id, t.version = strings.Clone(name), 0
	c.add(t)
	return t, nil
}

// ownTexts returns a mail whose texts share no memory with what they were read from:
// the content of a send has variables too, which would be kept and not counted.
func ownTexts(v *mail.TemplateVersion) mail.TemplateVersion {
	own := *v
	own.Headers = slices.Clone(v.Headers)
	texts := []*string{&own.Subject, &own.Preheader, &own.From, &own.HTML, &own.Text}
	for i := range own.Headers {
		texts = append(texts, &own.Headers[i].Name, &own.Headers[i].Value)
	}
	for _, text := range texts {
		*text = strings.Clone(*text)
	}
	return own
}

func (c *Cache) look(key cacheKey) *Template {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.known[key]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*Template)
}

// add keeps a template under its own id and version: those that it was asked for by may
// share the memory of a batch, which would be kept whole.
func (c *Cache) add(t *Template) {
	key := cacheKey{t.id, t.version}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[key] != nil {
		return
	}
	c.known[key] = c.order.PushFront(t)
	c.bytes += t.bytes
	for c.bytes > c.maxBytes && c.order.Len() > 1 {
		last := c.order.Back()
		old := c.order.Remove(last).(*Template)
		delete(c.known, cacheKey{old.id, old.version})
		c.bytes -= old.bytes
	}
}
