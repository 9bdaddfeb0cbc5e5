package rewrite

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"sluice"
	"sluice/lib/mime"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/store"
	"sluice/track/link"
)

// DefaultCacheBytes is how much memory the layouts of messages take that go to
// several recipients.
const DefaultCacheBytes = 32 << 20

// Settings say what a deployment lets be known of mail.
type Settings struct {
	Opens, Clicks bool
	Transactional bool     // false: nothing of transactional mail
	ExceptApps    []string // nothing of mail of these apps
	Own           []string // with what links begin that stay as they are, beside those of the keys
	Partitions    int      // of the deployment
}

// Tracker puts links and pixels into mails. Its methods may be called from several
// goroutines at once.
type Tracker struct {
	keys     *link.Keys
	settings Settings
	what     mail.Track
	layouts  layouts

	// Kept keeps the targets of long links; nil: those links stay as they are.
	Kept store.LinkStore
	kept kept

	// Log is told when they cannot be kept; nil: nobody wants to know.
	Log *slog.Logger
}

var _ spool.Tracker = (*Tracker)(nil)

// New returns a tracker whose links are made by keys.
func New(keys *link.Keys, s Settings) *Tracker {
	t := &Tracker{keys: keys, settings: s, layouts: layouts{most: DefaultCacheBytes}}
	if s.Opens {
		t.what |= mail.TrackOpens
	}
	if s.Clicks {
		t.what |= mail.TrackClicks
	}
	t.settings.Own = append(slices.Clone(s.Own), keys.Base()+link.OpenPath, keys.Base()+link.ClickPath, keys.Base()+link.PagePath)
	return t
}

// Wanted returns what of all that is asked for the settings let be known of a send.
func (t *Tracker) Wanted(s *mail.Send, asked mail.Track) mail.Track {
	if s.Class == mail.ClassTransactional && !t.settings.Transactional || slices.Contains(t.settings.ExceptApps, s.App) {
		return 0
	}
	return asked & t.what
}

func (t *Tracker) options(what mail.Track) *Options {
	return &Options{Opens: what&mail.TrackOpens != 0, Clicks: what&mail.TrackClicks != 0, Base: t.keys.Base(), Own: t.settings.Own, Long: t.Kept != nil}
}

// keeps keeps long targets, and reports whether they are kept. If they are not, long links
// stay as they are: no mail waits for them, and none leaves with links that lead nowhere.
func (t *Tracker) keeps(ctx context.Context, long []longTarget) bool {
	if len(long) == 0 {
		return true
	}
	err := t.kept.put(ctx, t.Kept, long)
	if err != nil && t.Log != nil && !errors.Is(err, errKeptRests) {
		t.Log.Warn("long links of a mail are not tracked: their targets cannot be kept", "links", len(long), "error", err)
	}
	return err == nil
}

// place is where a send is: its partition is that of its user, if that is known,
// else that of its address.
func (t *Tracker) place(s *spool.Tracked) link.Place {
	p := link.Place{Partition: s.User.Partition, Person: s.User.Number, Message: s.Send.Message, Send: s.Send.Number}
	if s.User.IsZero() {
		p.Partition = mail.SendPartition(s.Send.To, t.settings.Partitions)
	}
	return p
}

// HTML returns HTML with links and pixel, false: it is as it was.
func (t *Tracker) HTML(ctx context.Context, source string, s *spool.Tracked) (string, bool) {
	o := t.options(s.What)
	d := Analyse(source, o)
	if d != nil && !t.keeps(ctx, d.long) {
		o.Long = false
		d = Analyse(source, o)
	}
	if d == nil {
		return source, false
	}
	made, err := d.Fill(make([]byte, 0, len(d.text)), t.keys, t.place(s))
	if err != nil {
		return source, false
	}
	return string(made), true
}

// Message does the same to the HTML of a message that is ready to go. One that goes
// to several recipients is read once.
func (t *Tracker) Message(ctx context.Context, content []byte, s *spool.Tracked) []byte {
	l := t.layout(ctx, content, s)
	if l.message == nil {
		return content
	}
	p := t.place(s)
	made, err := l.message.Append(make([]byte, 0, l.message.Bytes()+spareBytes), func(text []byte) error {
		return fill(text, l.slots, t.keys, &p)
	})
	if err != nil || len(made) > sluice.MaxMessageBytes {
		return content
	}
	return made
}

// spareBytes is room for what is put before a message: its signature.
const spareBytes = 2 << 10

// layout returns what a message comes to. Its long targets are kept again now and then, also
// where it is remembered. While they cannot be, another layout is, whose long links stay.
func (t *Tracker) layout(ctx context.Context, content []byte, s *spool.Tracked) layout {
	o := t.options(s.What)
	for {
		l := t.layoutOf(content, s, o)
		if t.keeps(ctx, l.long) {
			return l
		}
		o.Long = false
	}
}

// layoutOf makes the layout of a message, unless it is remembered.
func (t *Tracker) layoutOf(content []byte, s *spool.Tracked, o *Options) layout {
	if s.Send.Recipients <= 1 {
		return makeLayout(content, o)
	}
	name := layoutName{s.Send.Message, s.What, o.Long}
	l, ok := t.layouts.get(name)
	if !ok {
		l = makeLayout(content, o)
		t.layouts.put(name, l)
	}
	return l
}

func makeLayout(content []byte, o *Options) layout {
	part := mime.FindHTML(content)
	if part == nil {
		return layout{}
	}
	o.ASCII = part.ASCII
	d := Analyse(part.Text, o)
	if d == nil {
		return layout{}
	}
	gaps := make([]int, len(d.slots))
	for i := range d.slots {
		gaps[i] = d.slots[i].at
	}
	l := layout{message: part.Layout(d.text, gaps, link.TokenBytes), slots: d.slots, long: d.long}
	for i, at := range l.message.Gaps() {
		l.slots[i].at = at
	}
	return l
}

// layout is a message with room for tokens. Without a message nothing is replaced.
type layout struct {
	message *mime.Layout
	slots   []slot // where they are in what Append hands out
	long    []longTarget
}

// bytes is how much memory it takes, roughly.
func (l *layout) bytes() int {
	n := 256
	if l.message != nil {
		n += l.message.Bytes()
	}
	for i := range l.slots {
		n += 64 + len(l.slots[i].target)
	}
	for _, t := range l.long {
		n += 32 + len(t.target)
	}
	return n
}

// layoutName names a layout: a message, what is to be known of it, and whether long links
// are tracked.
type layoutName struct {
	message string
	what    mail.Track
	long    bool
}

// layouts keeps layouts. The oldest is forgotten first: the sends of a message come
// together.
type layouts struct {
	mu    sync.Mutex
	most  int // bytes
	bytes int
	kept  map[layoutName]layout
	order []layoutName
}

func (c *layouts) get(name layoutName) (layout, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := c.kept[name]
	return l, ok
}

func (c *layouts) put(name layoutName, l layout) {
	size := l.bytes()
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.kept[name]; ok || size > c.most/4 { // one message leaves room for others
		return
	}
	for c.bytes+size > c.most {
		oldest := c.kept[c.order[0]]
		c.bytes -= oldest.bytes()
		delete(c.kept, c.order[0])
		c.order = c.order[1:]
	}
	if c.kept == nil {
		c.kept = make(map[layoutName]layout)
	}
	name.message = strings.Clone(name.message) // it may share the memory of a batch, which would be kept whole
	c.kept[name] = l
	c.order = append(c.order, name)
	c.bytes += size
}
