package imports

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"sluice"
	"sluice/ingest"
	"sluice/lib/jsonscan"
	"sluice/ops/transfer"
	"sluice/store"
	"sluice/user"
	"sluice/user/profile"
)

// Bounds of a preview.
const (
	// MaxPreviewBytes bounds the beginning of a file that is looked at.
	MaxPreviewBytes = 64 << 10

	previewRows    = 20
	previewColumns = 200
	previewSamples = 3
	sampleRunes    = 60
)

// exportedFields are those that each event of `sluice export events` has.
var exportedFields = []string{"event_id", "kind", "name", "time"}

// Fields that columns may become.
var (
	eventFields = []string{"event", "time", "user_id", "email", "app_id", "message_id", idField}
	userNames   = []string{"external_id", "user_alias"}
)

// guesses are what columns are often called, without case, spaces and marks, and what they
// then become. A column that is called as a field is is no guess.
var guesses = map[string]map[string]string{
	store.ImportEvents: {
		"action": "event", "activity": "event", "eventname": "event", "eventtype": "event",
		"when": "time", "date": "time", "datetime": "time", "createdat": "time", "occurredat": "time", "eventtime": "time", "eventdate": "time",
		"userid": "user_id", "customerid": "user_id", "customer": "user_id", "contactid": "user_id", "externalid": "user_id",
		"emailaddress": "email", "mail": "email", "messageid": "message_id", "eventid": idField,
	},
	store.ImportUsers: {
		"id": "external_id", "userid": "external_id", "customerid": "external_id", "contactid": "external_id", "externalid": "external_id",
		"emailaddress": "email", "mail": "email", "firstname": "first_name", "givenname": "first_name", "lastname": "last_name", "surname": "last_name", "familyname": "last_name",
		"phonenumber": "phone", "mobile": "phone", "telephone": "phone", "birthday": "dob", "birthdate": "dob", "dateofbirth": "dob", "timezone": "time_zone", "city": "home_city",
	},
}

// Preview says what an import would make of the beginning of a file; whole: it is all of
// it. If the options name no columns, it finds out which are meant.
func (d *Desk) Preview(_ context.Context, o store.ImportOptions, head string, whole bool) (store.ImportPreview, error) {
	p := store.ImportPreview{Options: o}
	if err := Check(&o); err != nil {
		return p, err
	}
	switch {
	case strings.TrimSpace(head) == "":
		return p, invalid("the file is empty")
	case len(head) > MaxPreviewBytes:
		return p, sluice.Refuse(sluice.CodeTooLarge, "the beginning of a file has %d bytes at most", MaxPreviewBytes)
	case isPacked(head):
		return p, invalid("the file is packed: unpack it first")
	}
	if err := look(&p, head, whole); err != nil {
		return p, err
	}
	return p, d.try(&p, head, whole)
}

// lookLines reads the beginning of a file.
func lookLines(o *store.ImportOptions, head string, whole bool) (*transfer.LineReader, error) {
	options, err := Lines(o)
	if err != nil {
		return nil, invalid("%v", err)
	}
	options.More = !whole
	r, err := transfer.NewLineReader(strings.NewReader(head), options)
	if errors.Is(err, transfer.ErrUnfinished) {
		err = errors.New("its first line is longer than what was looked at")
	}
	if err != nil {
		return nil, invalid("%v", err)
	}
	return r, nil
}

// look finds the columns, with what they have, and what they may be.
func look(p *store.ImportPreview, head string, whole bool) error {
	as := p.Options
	as.Columns = nil
	r, err := lookLines(&as, head, whole)
	if err != nil {
		return err
	}
	defer r.Close()
	state := r.State()
	for _, name := range state.Header {
		if name != "" && len(p.Columns) < previewColumns {
			p.Columns = append(p.Columns, store.ImportColumn{Name: name})
		}
	}
	for range previewRows {
		line, err := r.Next()
		if err != nil {
			break // of the end; any other error comes again
		}
		sample(p, line.Text)
	}
	p.Options.Format, p.Options.Delimiter = string(state.Format), delimiterText(state.Delimiter)
	has := func(name string) bool {
		return slices.ContainsFunc(p.Columns, func(c store.ImportColumn) bool { return c.Name == name })
	}
	if p.Options.Columns == nil && !p.Options.Exported && p.Options.Kind == store.ImportEvents && !slices.ContainsFunc(exportedFields, func(f string) bool { return !has(f) }) {
		p.Options.Exported = true
	}
	if p.Options.Columns == nil && !p.Options.Exported {
		p.Options.Columns = guess(p.Options.Kind, p.Columns)
	}
	p.Fields = fieldsOf(&p.Options)
	for i := range p.Columns {
		c := &p.Columns[i]
		c.To = c.Name
		if to, ok := p.Options.Columns[c.Name]; ok {
			c.To = to
		}
		c.As = meaning(&p.Options, c.To)
	}
	return nil
}

// delimiterText is what Delimiter reads back.
func delimiterText(r rune) string {
	switch r {
	case 0:
		return ""
	case '\t':
		return delimiterTab
	}
	return string(r)
}

// sample takes what the members of a line are as samples of their columns.
func sample(p *store.ImportPreview, line string) {
	for m := jsonscan.Read(line); m.Next(); {
		at := slices.IndexFunc(p.Columns, func(c store.ImportColumn) bool { return c.Name == m.Key })
		if at < 0 {
			if p.Options.Format == string(transfer.CSV) || len(p.Columns) >= previewColumns || m.Key == "" {
				continue
			}
			at = len(p.Columns)
			p.Columns = append(p.Columns, store.ImportColumn{Name: strings.Clone(m.Key)})
		}
		c := &p.Columns[at]
		text := m.Value.Raw
		if m.Value.Kind == jsonscan.String {
			text = m.Value.Text()
		}
		if len(c.Samples) < previewSamples && text != "" {
			c.Samples = append(c.Samples, shortened(text))
		}
	}
}

// shortened is the beginning of a text.
func shortened(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if utf8.RuneCountInString(text) > sampleRunes {
		text = string([]rune(text)[:sampleRunes]) + "…"
	}
	return strings.Clone(text)
}

// guess says what columns are that are not called as a field is, each field once.
func guess(kind string, columns []store.ImportColumn) map[string]string {
	o := store.ImportOptions{Kind: kind}
	taken := make(map[string]bool)
	for _, c := range columns {
		taken[meaning(&o, c.Name)] = true
	}
	found := make(map[string]string)
	for _, c := range columns {
		if as := meaning(&o, c.Name); as != asProperty && as != asCustom {
			continue
		}
		to, ok := guesses[kind][strings.Map(func(r rune) rune {
			if r == ' ' || r == '_' || r == '-' || r == '.' {
				return -1
			}
			return r
		}, strings.ToLower(c.Name))]
		if as := meaning(&o, to); ok && !taken[as] {
			taken[as] = true
			found[c.Name] = to
		}
	}
	return found
}

// What a column is that is no field.
const (
	asNothing  = "nothing"
	asProperty = "property"
	asCustom   = "custom attribute"
)

// meaning says what a member of a line is, by its name.
func meaning(o *store.ImportOptions, name string) string {
	switch {
	case name == "":
		return asNothing
	case o.Exported:
		return name
	case o.Kind == store.ImportUsers && (profile.IsStandard(name) || slices.Contains(userNames, name)):
		return name
	case o.Kind == store.ImportUsers:
		return asCustom
	case name == o.Dedupe || o.Dedupe == "" && name == idField:
		return idField
	}
	if field := ingest.FieldOf(name); field != "" {
		return field
	}
	return asProperty
}

// fieldsOf are the names that a column may get.
func fieldsOf(o *store.ImportOptions) []string {
	switch {
	case o.Exported:
		return nil
	case o.Kind == store.ImportUsers:
		return append(slices.Clone(userNames), profile.StandardFields()...)
	}
	return eventFields
}

// try makes rows of the lines, as the import would.
func (d *Desk) try(p *store.ImportPreview, head string, whole bool) error {
	r, err := lookLines(&p.Options, head, whole)
	if err != nil {
		return err
	}
	defer r.Close()
	im := d.Import(&p.Options)
	for {
		line, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return invalid("%v", err)
		}
		p.Lines++
		event, update, err := im.Try(line)
		if err != nil {
			if p.Refused++; len(p.Reasons) < MaxPieceReasons {
				p.Reasons = append(p.Reasons, store.RefusedLine{Line: line.Number, Reason: reasonText(err.Error())})
			}
			continue
		}
		if len(p.Rows) < previewRows {
			p.Rows = append(p.Rows, rowOf(line.Number, event, update))
		}
	}
}

// rowOf copies what a line has become.
func rowOf(number int64, e *sluice.Event, u *user.Update) store.ImportRow {
	row := store.ImportRow{Line: number}
	if u != nil {
		row.User, row.Values = u.Key.Name, u.Body
		switch u.Key.Kind {
		case user.KeyExternal:
			row.Named = "external_id"
		case user.KeyAlias:
			row.Named = "user_alias"
		case user.KeyEmail:
			row.Named = "email"
		case user.KeyPhone:
			row.Named = "phone"
		}
	} else {
		row.Event, row.Kind, row.App, row.Email, row.UserRef, row.Message, row.ID = e.Name, e.Kind.String(), e.App, e.Email, e.User, e.Message, e.ID
		row.TimeMillis, row.Values = e.TimeMillis, e.Properties
	}
	for _, text := range []*string{&row.Event, &row.App, &row.Email, &row.UserRef, &row.Message, &row.ID, &row.User, &row.Values} {
		*text = strings.Clone(strings.ToValidUTF8(*text, "\uFFFD"))
	}
	return row
}
