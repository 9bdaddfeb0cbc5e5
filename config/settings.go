package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Setting is one thing that can be set outside the file, as the help prints it.
type Setting struct {
	Path string // "log.level"
	Env  string // "SLUICE_LOG_LEVEL"
	Flag string // "log-level", without dashes; empty: none
	Bool bool   // true or false: the flag alone means true
	Doc  string
}

// FileEnv names the configuration file where --config does not: so what a
// service and its operator's shell have in common fits into one environment.
const FileEnv = "SLUICE_CONFIG"

// FailpointEnv is read by the tests' failpoints, not by this package. It is
// known here so that it is not refused.
const FailpointEnv = "SLUICE_FAILPOINT"

// Settings returns what can be set by the environment and the command line, in
// the order of the struct.
func Settings() []Setting {
	var all []Setting
	walkFields(reflect.TypeFor[Config](), "", func(path string, f reflect.StructField) {
		if f.Tag.Get("only") == "file" {
			return
		}
		s := Setting{
			Path: path,
			Env:  "SLUICE_" + strings.ToUpper(strings.ReplaceAll(path, ".", "_")),
			Flag: strings.NewReplacer(".", "-", "_", "-").Replace(path),
			Bool: f.Type.Kind() == reflect.Bool,
			Doc:  f.Tag.Get("doc"),
		}
		if f.Tag.Get("only") == "noflag" {
			s.Flag = ""
		}
		all = append(all, s)
	})
	return all
}

// walkFields visits every setting; a struct is entered, not visited.
func walkFields(t reflect.Type, prefix string, visit func(path string, f reflect.StructField)) {
	for f := range t.Fields() {
		key := f.Tag.Get("yaml")
		if key == "" {
			continue
		}
		if f.Type.Kind() == reflect.Struct {
			walkFields(f.Type, prefix+key+".", visit)
			continue
		}
		visit(prefix+key, f)
	}
}

// fieldAt returns the field of a key path.
func (c *Config) fieldAt(path string) reflect.Value {
	v := reflect.ValueOf(c).Elem()
	for key := range strings.SplitSeq(path, ".") {
		v, _ = fieldByKey(v, key)
	}
	return v
}

// fieldByKey returns the field of a struct whose yaml tag is key, and all keys.
func fieldByKey(v reflect.Value, key string) (reflect.Value, []string) {
	var found reflect.Value
	var known []string
	for f := range v.Type().Fields() {
		k := f.Tag.Get("yaml")
		if k == "" {
			continue
		}
		known = append(known, k)
		if k == key {
			found = v.FieldByIndex(f.Index)
		}
	}
	return found, known
}

// setText sets a setting from the text of a flag or a variable. The error does
// not repeat the text, which may be a secret.
func (c *Config) setText(path, text, origin string) error {
	v := c.fieldAt(path)
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%s: %s is %q, want a whole number", origin, path, text)
		}
		v.SetInt(int64(n))
	case reflect.Bool:
		yes, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%s: %s is %q, want true or false", origin, path, text)
		}
		v.SetBool(yes)
	case reflect.Slice:
		var words []string // of an empty text: none
		if text != "" {
			words = strings.Split(text, ",")
		}
		for i := range words {
			words[i] = strings.TrimSpace(words[i])
		}
		v.Set(reflect.ValueOf(words))
	}
	c.origins[path] = origin
	return nil
}
