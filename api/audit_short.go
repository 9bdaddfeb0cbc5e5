package api

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"sluice/lib/jsonscan"
	"sluice/store"
)

// What is too long for the audit log is shortened as JSON: an object stays an object, and
// what names a user stays whole, under its member, or is left out. So an erasure finds in
// a short value whom it finds in a whole one. A text that was cut out of the JSON would
// have names without their members, and parts of names.

// cutText stands for what is left out of a value: as JSON.
const cutText = `"` + auditCut + `"`

// cutMember stands for members of an object that are left out.
const cutMember = cutText + `:"more"`

// leastList is for how many bytes an object or an array is shortened; of less cutText is
// left.
const leastList = 32

// shortened is a JSON value as it is or, if it has more bytes than that, what of it differs
// from another, as JSON of at most so many bytes. under is the member that it stands under.
// There must be room for cutText.
func shortened(value, other, under string, most int) string {
	switch {
	case len(value) <= most:
		return value
	case value[0] == '{' && most >= leastList:
		return shortObject(value, other, most)
	case value[0] == '[' && most >= leastList:
		return shortArray(value, other, under, most)
	case value[0] == '"' && !store.NamesUsers(under):
		return shortText(value, other, most)
	}
	return cutText
}

// shortBody is a body as it is or, if it has more bytes than that, its beginning. What is
// no JSON is cut between words.
func shortBody(body string, most int) string {
	body = strings.TrimSpace(body)
	if len(body) <= most || !isJSON(body) {
		return clipTo(body, most)
	}
	return clipTo(shortened(body, "", "", most), most)
}

// isJSON reports whether a text is an object or an array.
func isJSON(text string) bool {
	if text[0] == '[' {
		all := jsonscan.ReadArray(text)
		for all.Next() {
		}
		return all.Err() == nil
	}
	all := jsonscan.Read(text)
	for all.Next() {
	}
	return all.Err() == nil
}

// shortList is an object or an array that is made of what of it there is room for.
type shortList struct {
	text string
	most int
}

// add adds a value behind a name, which is empty in an array; cut stands for the values
// that there is no room for, and is added if it reports false.
func (l *shortList) add(name, value, other, under, cut string) bool {
	comma := ""
	if len(l.text) > 1 {
		comma = ","
	}
	room := l.most - len(l.text) - len(comma) - len(name) - len(","+cut+"}")
	if room < len(cutText) {
		l.text += comma + cut
		return false
	}
	l.text += comma + name + shortened(value, other, under, room)
	return true
}

// shortObject is shortened of an object: members that are the same are left out.
func shortObject(value, other string, most int) string {
	same, user := make(map[string]string), false
	for m := jsonscan.Read(other); m.Next(); {
		same[m.Key] = m.Value.Raw
	}
	l := shortList{text: "{", most: most}
	for m := jsonscan.Read(value); m.Next(); { // of a rule: what says that users are meant stays
		if user || !store.SaysUsers(m.Key, m.Value.Text()) {
			continue
		}
		l.text += string(plainJSON(m.Key)) + ":" + m.Value.Raw
		if user, same[m.Key] = true, m.Value.Raw; len(l.text)+leastList > most {
			return cutText
		}
	}
	for m := jsonscan.Read(value); m.Next(); {
		was, under := same[m.Key], m.Key
		if was == m.Value.Raw {
			continue
		}
		if user {
			under = store.UserMember
		}
		if name := string(plainJSON(m.Key)) + ":"; !l.add(name, m.Value.Raw, was, under, cutMember) {
			break
		}
	}
	return l.text + "}"
}

// shortArray is shortened of an array: elements that are the same at its beginning and its
// end are left out.
func shortArray(value, other, under string, most int) string {
	all, others := elements(value), elements(other)
	from, behind := 0, len(all)
	for from < min(len(all), len(others)) && all[from] == others[from] {
		from++
	}
	for less := len(all) - len(others); behind > max(from, from+less) && all[behind-1] == others[behind-1-less]; {
		behind--
	}
	l := shortList{text: "[", most: most}
	if from > 0 {
		l.text += cutText
	}
	for i, element := range all[from:behind] {
		was := ""
		if len(all) == len(others) {
			was = others[from+i]
		}
		if was == element { // nor are those in between
			element = cutText
		}
		if !l.add("", element, was, under, cutText) {
			return l.text + "]"
		}
	}
	if behind < len(all) {
		l.add("", cutText, "", "", cutText)
	}
	return l.text + "]"
}

// elements are those of an array, as JSON.
func elements(array string) (all []string) {
	for e := jsonscan.ReadArray(array); e.Next(); {
		all = append(all, e.Value.Raw)
	}
	return all
}

// shortText is shortened of a text: the part of it that differs, cut between words.
func shortText(value, other string, most int) string {
	text, against := textOf(value), textOf(other)
	start := 0
	for start < min(len(text), len(against)) && text[start] == against[start] {
		start++
	}
	start = wordBefore(text, max(0, start-auditContext))
	for start > 0 && !utf8.RuneStart(text[start]) {
		start--
	}
	mark := ""
	if start > 0 {
		mark = auditCut
	}
	for n := most; n > 0; { // escapes take more
		part, end := text[start:], ""
		if len(part) > n {
			part, end = clipTo(part, n), auditCut
		}
		short := plainJSON(mark + part + end)
		if len(short) <= most {
			return string(short)
		}
		n = min(n-1, n*most/len(short))
	}
	return cutText
}

// textOf is a text itself, of other values their JSON.
func textOf(value string) (text string) {
	if json.Unmarshal([]byte(value), &text) != nil {
		return value
	}
	return text
}
