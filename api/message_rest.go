package api

import (
	"strings"
	"time"
	"unicode/utf8"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/lib/timetext"
	"sluice/mail"
)

// readRest reads what messages of all forms have: how they are sent, and what
// they are called.
func (in *incoming) readRest(now time.Time) error {
	d := &in.draft
	priority, class, app, route := d.Priority.String(), d.Class.String(), "", ""
	err := take(in.given, field{"priority", &priority}, field{"class", &class}, field{"app_id", &app}, field{"route", &route})
	if err != nil {
		return err
	}
	var ok bool
	if d.Priority, ok = mail.ParsePriority(priority); !ok {
		return refusal(sluice.CodeInvalid, "priority is %.32q, want high, normal or low", priority)
	}
	if d.Class, ok = mail.ParseClass(class); !ok {
		return refusal(sluice.CodeInvalid, "class is %.32q, want transactional or marketing", class)
	}
	if len(app) > sluice.MaxAppIDBytes || hasControl(app) {
		return refusal(sluice.CodeInvalid, "app_id: want a text of at most %d bytes without control characters", sluice.MaxAppIDBytes)
	}
	if len(route) > maxRouteBytes || strings.ContainsFunc(route, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return refusal(sluice.CodeInvalid, "route: want the name of one, at most %d visible ASCII characters", maxRouteBytes)
	}
	d.App, d.Route = app, route
	if err := in.readTimes(now); err != nil {
		return err
	}
	if err := in.readTags(); err != nil {
		return err
	}
	if v, ok := in.given["metadata"]; ok {
		if v.Kind != jsonscan.Object || len(v.Raw) > mail.MaxMetadataBytes {
			return refusal(sluice.CodeInvalid, "metadata: want an object of at most %d bytes", mail.MaxMetadataBytes)
		}
		d.Metadata = strings.Clone(v.Raw)
	}
	return nil
}

// readTimes reads send_at and expires_at.
func (in *incoming) readTimes(now time.Time) error {
	d := &in.draft
	for _, x := range []struct {
		field  string
		millis *int64
	}{{"send_at", &d.DueMillis}, {"expires_at", &d.ExpiresMillis}} {
		v, ok := in.given[x.field]
		if !ok {
			continue
		}
		if v.Kind != jsonscan.String {
			return refusal(sluice.CodeInvalid, "%s: want a text with a time such as 2026-01-31T10:20:00Z, got %s", x.field, v.Kind)
		}
		at, err := timetext.Parse(v.Text(), true)
		if err != nil {
			return refusal(sluice.CodeInvalid, "%s is %.64q, want a time such as 2026-01-31T10:20:00Z", x.field, v.Text())
		}
		if at > now.Add(maxMessageAhead).UnixMilli() {
			return refusal(sluice.CodeInvalid, "%s is %.64q, at most %d days ahead are possible", x.field, v.Text(), maxMessageAhead/(24*time.Hour))
		}
		*x.millis = max(at, 1)
	}
	if d.ExpiresMillis != 0 && d.ExpiresMillis <= max(d.DueMillis, now.UnixMilli()) {
		return refusal(sluice.CodeInvalid, "expires_at is over before the message may be sent")
	}
	return nil
}

// readTags reads tags. They are stored with commas between them.
func (in *incoming) readTags() error {
	v, ok := in.given["tags"]
	if !ok {
		return nil
	}
	if v.Kind != jsonscan.Array {
		return refusal(sluice.CodeInvalid, "tags: want a list of texts, got %s", v.Kind)
	}
	e := jsonscan.ReadArray(v.Raw)
	for e.Next() {
		if e.Value.Kind != jsonscan.String {
			return refusal(sluice.CodeInvalid, "tags: want texts, got %s", e.Value.Kind)
		}
		tag := strings.Clone(e.Value.Text())
		switch {
		case len(in.draft.Tags) == mail.MaxTags:
			return refusal(sluice.CodeInvalid, "tags: there are more than %d", mail.MaxTags)
		case tag == "" || len(tag) > mail.MaxTagBytes || hasControl(tag) || !utf8.ValidString(tag) || strings.Contains(tag, ",") || strings.TrimSpace(tag) != tag:
			return refusal(sluice.CodeInvalid, "tags: %.64q is none, want 1 to %d bytes without commas, control characters and blanks at the ends", tag, mail.MaxTagBytes)
		}
		in.draft.Tags = append(in.draft.Tags, tag)
	}
	return nil
}

// readTrack reads track: true, false, or an object with opens and clicks, of which
// one that is not there is as it is without. It completes the content. What is ready
// (raw) is not tracked unless that is asked for.
func (in *incoming) readTrack(tracks bool) error {
	if v, ok := in.given["track"]; ok {
		opens, clicks := in.track&mail.TrackOpens != 0, in.track&mail.TrackClicks != 0
		switch v.Kind {
		case jsonscan.Bool:
			opens, clicks = v.Raw == "true", v.Raw == "true"
		case jsonscan.Object:
			if _, err := decode(v.Raw, field{"opens", &opens}, field{"clicks", &clicks}); err != nil {
				return under("track", err)
			}
		default:
			return refusal(sluice.CodeInvalid, "track: want true, false, or an object with opens and clicks, got %s", v.Kind)
		}
		in.track = 0
		if opens {
			in.track |= mail.TrackOpens
		}
		if clicks {
			in.track |= mail.TrackClicks
		}
	}
	switch {
	case in.template != nil:
		in.template.Off = mail.TrackAll &^ in.track
		if in.template.Off != 0 && !sluice.WritesNewForms() {
			return refusal(sluice.CodeUnavailable, "track: a process of an older version is running, which cannot read it; send it again when that has ended")
		}
		in.draft.Content = in.template.Append(nil)
	case tracks:
		in.draft.Content = mail.WithTrack(in.draft.Content, in.track)
	}
	return nil
}
