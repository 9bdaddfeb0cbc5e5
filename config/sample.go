package config

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

// sampleWidth is where the explanations of the sample are broken.
const sampleWidth = 88

// WriteSample writes the reference: a file that loads as it is, and says what
// can be set. "# text" explains; "#key: value" is a setting at its default,
// switched on by taking the # away.
func WriteSample(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Sluice: every setting with its default. A line with # and a blank explains; take\n" +
		"# away the # of a line without the blank to set it. Stronger than this file are\n" +
		"# the environment (in brackets) and, stronger still, the flags.\n")
	sampleStruct(&b, reflect.ValueOf(Default()).Elem(), "", "")
	_, err := io.WriteString(w, b.String())
	return err
}

func sampleStruct(b *strings.Builder, v reflect.Value, indent, prefix string) {
	byPath := map[string]Setting{}
	for _, s := range Settings() {
		byPath[s.Path] = s
	}
	for f := range v.Type().Fields() {
		key := f.Tag.Get("yaml")
		if key == "" || v.Type() == reflect.TypeFor[Route]() && !ofSample(v.Interface().(Route).Name, key) {
			continue
		}
		doc := f.Tag.Get("doc")
		if s, ok := byPath[prefix+key]; ok && v.Type() != reflect.TypeFor[List]() {
			doc += " [" + s.Env
			if s.Flag != "" {
				doc += ", --" + s.Flag
			}
			doc += "]"
		}
		b.WriteString("\n" + wrap(doc, indent+"# ", sampleWidth))
		field := v.FieldByIndex(f.Index)
		switch {
		case f.Type.Kind() == reflect.Struct:
			fmt.Fprintf(b, "%s#%s:\n", indent, key)
			sampleStruct(b, field, indent+"  ", prefix+key+".")
		case prefix == "" && sampleEntries[key] != nil:
			fmt.Fprintf(b, "%s#%s:\n", indent, key)
			for _, e := range sampleEntries[key] {
				fmt.Fprintf(b, "%s  #%s\n", indent, e.head)
				sampleStruct(b, reflect.ValueOf(e.fresh), indent+"    ", key+".")
			}
		case f.Type == reflect.TypeFor[[]Pair]():
			fmt.Fprintf(b, "%s#%s:\n%s  #%s\n", indent, key, indent, samplePairs[key])
		case f.Type == reflect.TypeFor[[]Column]():
			fmt.Fprintf(b, "%s#%s:\n", indent, key)
			for _, c := range sampleColumns {
				fmt.Fprintf(b, "%s  #%s: %s\n", indent, c.Column, c.Field)
			}
		default:
			b.WriteString(strings.TrimRight(fmt.Sprintf("%s#%s: %s", indent, key, sampleValue(field, f.Tag.Get("sample"))), " ") + "\n")
		}
	}
}

// sampleEntries are the entries that the sample shows of settings that have entries: how
// one begins, and one that nothing is set of.
var sampleEntries = map[string][]struct {
	head  string
	fresh any
}{
	"lists":            {{"pepi_queue:", List{}}},
	"hashes":           {{"-", Hashes{}}},
	"optin":            {{"newsletter:", newOptIn("newsletter")}},
	"routes":           {{sampleRoutes[0] + ":", newRoute(sampleRoutes[0])}, {sampleRoutes[1] + ":", newRoute(sampleRoutes[1])}, {sampleRoutes[2] + ":", newRoute(sampleRoutes[2])}},
	"hooks":            {{"main:", newHook("main")}},
	"dkim":             {{"example.com:", newDKIM("example.com")}},
	"caps":             {{"weekly:", newCap("weekly")}},
	"suppression_sets": {{"sender_bad_domains:", newSuppressionSet("sender_bad_domains")}},
}

// sampleRoutes are routes of each kind: the first has what all may have.
var sampleRoutes = []string{"relay", "amazon", "provider"}

var samplePairs = map[string]string{"paces": "slow.example: 30/m", "headers": "Authorization: Bearer SECRET", "keys": "s1: /etc/sluice/dkim-s1.pem"}

// ofSample reports whether a sample's route shows a setting.
func ofSample(name, key string) bool {
	switch key {
	case "smtp":
		return name == sampleRoutes[0]
	case "ses":
		return name == sampleRoutes[1]
	case "http":
		return name == sampleRoutes[2]
	}
	return name == sampleRoutes[0]
}

// sampleColumns show the common case and a field inside an object.
var sampleColumns = []Column{
	{"event_id", "event_id"}, {"event", "event"}, {"email", "email"},
	{"happened_at", "timestamp"}, {"campaign", "metadata.campaign"},
}

func sampleValue(v reflect.Value, sample string) string {
	if words, ok := v.Interface().([]string); ok && (len(words) > 0 || sample == "") {
		return "[" + strings.Join(words, ", ") + "]"
	}
	if v.IsZero() && sample != "" {
		return sample
	}
	return fmt.Sprint(v.Interface())
}

// wrap breaks a text into lines of at most width bytes.
func wrap(text, prefix string, width int) string {
	var b strings.Builder
	line := prefix
	for word := range strings.FieldsSeq(text) {
		if len(line)+len(word) > width && line != prefix {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = prefix
		}
		line += word + " "
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
	return b.String()
}
