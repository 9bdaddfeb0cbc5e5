package run

import (
	"context"
	"sync"
	"time"

	"sluice/mail"
)

// Bounds of versions of templates in memory.
const (
	keptVersionBytes = 32 << 20
	versionsKeptFor  = 10 * time.Minute
)

// versionsKept keeps versions of templates between the times that journeys are read. Each
// step with a mail asks for its template twice, and each publish has all journeys read: 1,000
// of them with eight mails each would ask the database 32,000 times, and mail waits meanwhile.
//
// A version never changes. It is forgotten all the same in a while: a database that went back
// may have another one under its number.
type versionsKept struct {
	mu    sync.Mutex
	all   map[templateKey]mail.TemplateVersion
	bytes int
	until time.Time
}

type templateKey struct {
	template string
	version  int
}

func (k *versionsKept) get(key templateKey, now time.Time) (v mail.TemplateVersion, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.After(k.until) {
		k.all, k.bytes, k.until = make(map[templateKey]mail.TemplateVersion), 0, now.Add(versionsKeptFor)
	}
	v, ok = k.all[key]
	return v, ok
}

// put keeps a version. If it has no place, all others go: they are read again.
func (k *versionsKept) put(key templateKey, v mail.TemplateVersion) {
	size := len(v.HTML) + len(v.Text) + len(v.Subject) + len(v.Preheader) + len(v.From)
	for _, h := range v.Headers {
		size += len(h.Name) + len(h.Value)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.bytes += size; k.bytes > keptVersionBytes {
		clear(k.all)
		k.bytes = size
	}
	if k.all != nil && size <= keptVersionBytes {
		k.all[key] = v
	}
}

// loadTemplates are the templates while journeys are read.
type loadTemplates struct {
	mail.TemplateStore
	kept    *versionsKept
	current map[string]int // which version is in use, when the reading began
}

// TemplateVersion implements mail.TemplateStore.
func (t *loadTemplates) TemplateVersion(ctx context.Context, id string, version int) (mail.TemplateVersion, error) {
	if version == 0 {
		version = t.current[id] // 0: it is not there, and the database says so
	}
	key := templateKey{id, version}
	if v, ok := t.kept.get(key, time.Now()); ok {
		return v, nil
	}
	v, err := t.TemplateStore.TemplateVersion(ctx, id, version)
	if err == nil && version != 0 {
		t.kept.put(key, v)
	}
	return v, err
}
