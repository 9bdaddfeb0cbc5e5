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
		case f.Type == reflect.TypeFor[[]List]():
			fmt.Fprintf(b, "%s#%s:\n%s  #pepi_queue:\n", indent, key, indent)
			sampleStruct(b, reflect.ValueOf(List{}), indent+"    ", "lists.")
		case f.Type == reflect.TypeFor[[]OptIn]():
			fmt.Fprintf(b, "%s#%s:\n%s  #newsletter:\n", indent, key, indent)
			sampleStruct(b, reflect.ValueOf(newOptIn("newsletter")), indent+"    ", "optin.")
		case f.Type == reflect.TypeFor[[]Route]():
			fmt.Fprintf(b, "%s#%s:\n", indent, key)
			for _, name := range sampleRoutes {
				fmt.Fprintf(b, "%s  #%s:\n", indent, name)
				sampleStruct(b, reflect.ValueOf(newRoute(name)), indent+"    ", "routes.")
			}
		case f.Type == reflect.TypeFor[[]DKIM]():
			fmt.Fprintf(b, "%s#%s:\n%s  #example.com:\n", indent, key, indent)
			sampleStruct(b, reflect.ValueOf(newDKIM("example.com")), indent+"    ", "dkim.")
		case f.Type == reflect.TypeFor[[]Pair]():
			fmt.Fprintf(b, "%s#%s:\n%s  #%s\n", indent, key, indent, samplePairs[key])
		case f.Type == reflect.TypeFor[[]SuppressionSet]():
			fmt.Fprintf(b, "%s#%s:\n%s  #sender_bad_domains:\n", indent, key, indent)
			sampleStruct(b, reflect.ValueOf(newSuppressionSet("sender_bad_domains")), indent+"    ", "suppression_sets.")
		case f.Type == reflect.TypeFor[[]Hashes]():
			fmt.Fprintf(b, "%s#%s:\n%s  #-\n", indent, key, indent)
			sampleStruct(b, reflect.ValueOf(Hashes{}), indent+"    ", "hashes.")
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
