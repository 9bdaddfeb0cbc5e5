package rewrite

import (
	"slices"
	"strings"

	"sluice/lib/mime"
	"sluice/track/link"
)

// Bounds of one mail.
const (
	// MaxLinks is how many links of a mail lead by way of this deployment. Those
	// behind stay as they are.
	MaxLinks = 2000

	// offMark is the attribute of links that stay as they are. It does not go out.
	offMark = "data-sluice-track"

	// pixel is the image, with its URL between the two. display:none keeps it from
	// moving what it stands behind; it is loaded all the same.
	pixelBefore = `<img src="`
	pixelBehind = `" width="1" height="1" alt="" style="display:none;width:1px;height:1px;border:0">`
)

// Options say what is put into a mail.
type Options struct {
	Opens, Clicks bool
	Base          string   // with which links begin, without a slash at its end
	Own           []string // with what links begin that are ours already: those stay
	ASCII         bool     // links with other characters stay: it is not known in which charset
	Long          bool     // links longer than link.MaxTargetBytes do not stay, but those with an address: Doc.long is to be kept
}

// Doc is HTML with room for the tokens of one recipient.
type Doc struct {
	text  string
	slots []slot
	long  []longTarget // to be kept before it is sent
}

// longTarget is a target that its link has the hash of (link.Hash).
type longTarget struct{ hash, target string }

// slot is where a token goes.
type slot struct {
	at     int    // in the text
	target string // as it is signed (link.Signed)
	link   int    // 0: the pixel
}

// room stands where a token will.
var room = strings.Repeat("A", link.TokenBytes)

// Analyse finds what is to be replaced in HTML, or returns nil: nothing is. HTML
// that is broken is left as it is from where a browser would see no tags any more.
// HTML of more than mime.MaxBodyBytes, as it is or as it would become, is left as a whole.
func Analyse(source string, o *Options) *Doc {
	if len(source) > mime.MaxBodyBytes {
		return nil
	}
	w := writer{o: o, source: source}
	z := scanner{s: source}
	body := -1 // where the last </body> is, in the text
	var t tag
	for z.next(&t) {
		switch {
		case t.closing:
			if strings.EqualFold(source[t.start+2:t.nameEnd], "body") {
				w.copyTo(t.start)
				body = len(w.text)
			}
		case t.href.of || t.mark.of:
			w.link(&t)
		}
	}
	w.copyTo(len(source))
	if o.Opens && (body >= 0 || !z.ended) && !strings.Contains(source, o.Base+link.OpenPath) {
		w.pixel(body)
	}
	if len(w.text) > mime.MaxBodyBytes || len(w.slots) == 0 && len(w.text) == len(source) {
		return nil
	}
	return &Doc{text: string(w.text), slots: w.slots, long: w.long}
}

// writer makes the text of a Doc.
type writer struct {
	o      *Options
	source string
	copied int // of source
	text   []byte
	slots  []slot
	links  int
	long   []longTarget
}

// copyTo copies the source up to a place, as it is.
func (w *writer) copyTo(end int) {
	if w.text == nil {
		w.text = make([]byte, 0, len(w.source)+len(w.source)/4+512)
	}
	w.text = append(w.text, w.source[w.copied:end]...)
	w.copied = end
}

// link replaces the target of a link, and takes its mark out.
func (w *writer) link(t *tag) {
	marked := t.mark.of && strings.EqualFold(strings.TrimSpace(w.source[t.mark.valueStart:t.mark.stop]), "off")
	if t.mark.of && (!t.href.of || t.mark.start < t.href.start) {
		w.cut(&t.mark)
	}
	if t.href.of && !marked {
		w.href(&t.href)
	}
	if t.mark.of && t.mark.start >= w.copied {
		w.cut(&t.mark)
	}
}

// cut takes an attribute out, with the space before it.
func (w *writer) cut(a *attribute) {
	start := a.start
	for start > w.copied && isSpace(w.source[start-1]) {
		start--
	}
	w.copyTo(start)
	w.copied = a.end
}

// href replaces the value of an attribute, if it is a link that is counted.
func (w *writer) href(a *attribute) {
	target, ok := w.target(w.source[a.valueStart:a.stop])
	if !ok {
		return
	}
	w.copyTo(a.valueStart)
	if !a.quoted {
		w.text = append(w.text, '"')
	}
	w.links++
	if signed, long := link.Signed(target); long {
		hash := signed[len(link.LongText("")):]
		w.slot(link.ClickPath, signed, w.links)
		w.text = append(append(w.text, link.LongQuery...), hash...)
		w.long = append(w.long, longTarget{hash, target})
	} else {
		w.slot(link.ClickPath, signed, w.links)
		w.text = link.AppendTarget(append(w.text, link.TargetQuery...), target)
	}
	if !a.quoted {
		w.text = append(w.text, '"')
	}
	w.copied = a.stop
}

// slot appends the beginning of a URL with room for its token.
func (w *writer) slot(path, target string, number int) {
	w.text = append(append(w.text, w.o.Base...), path...)
	w.slots = append(w.slots, slot{at: len(w.text), target: target, link: number})
	w.text = append(w.text, room...)
}

// target returns where a link leads, if clicks on it are to be counted. Browsers
// cut spaces off at both ends (URL, 4.4).
func (w *writer) target(value string) (string, bool) {
	longest := link.MaxTargetBytes
	if w.o.Long {
		longest = link.MaxLongTargetBytes
	}
	if !w.o.Clicks || w.links == MaxLinks || len(value) > 8*longest {
		return "", false
	}
	target := strings.Trim(unescape(value), " \t\r\n\f")
	if len(target) > longest || !link.Redirects(target) || w.o.ASCII && !mime.IsASCIIBytes([]byte(target)) {
		return "", false
	}
	if len(target) > link.MaxTargetBytes && named(target) {
		return "", false
	}
	for _, own := range w.o.Own {
		if len(target) >= len(own) && strings.EqualFold(target[:len(own)], own) {
			return "", false
		}
	}
	return target, true
}

// pixel puts the image at a place of the text; -1: at its end.
func (w *writer) pixel(at int) {
	if at < 0 {
		at = len(w.text)
	}
	behind := string(w.text[at:])
	w.text = append(w.text[:at], pixelBefore...)
	w.slot(link.OpenPath, "", 0)
	added := len(link.OpenSuffix) + len(pixelBehind) + len(w.text) - at
	w.text = append(append(append(w.text, link.OpenSuffix...), pixelBehind...), behind...)
	for i := range w.slots[:len(w.slots)-1] { // links behind </body>
		if w.slots[i].at >= at {
			w.slots[i].at += added
		}
	}
	slices.SortFunc(w.slots, func(a, b slot) int { return a.at - b.at })
}

// Fill appends the HTML with the tokens of a place. Links and the pixel have their
// own numbers.
func (d *Doc) Fill(b []byte, keys *link.Keys, p link.Place) ([]byte, error) {
	start := len(b)
	b = append(b, d.text...)
	return b, fill(b[start:], d.slots, keys, &p)
}

// fill writes tokens into a text that has room for them.
func fill(text []byte, slots []slot, keys *link.Keys, p *link.Place) error {
	for i := range slots {
		s := &slots[i]
		kind := link.KindClick
		if p.Link = s.link; s.link == 0 {
			kind = link.KindOpen
		}
		if _, err := keys.AppendToken(text[s.at:s.at:s.at+link.TokenBytes], kind, p, s.target); err != nil {
			return err
		}
	}
	return nil
}
