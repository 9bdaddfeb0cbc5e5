package jsonscan

// Kind is the JSON type of a value.
type Kind uint8

// The kinds. None is the kind of the zero Value: no value at all.
const (
	None Kind = iota
	Null
	Bool
	Number
	String
	Object
	Array
)

// String returns the kind with its article, as errors need it.
func (k Kind) String() string {
	return [...]string{"nothing", "null", "a boolean", "a number", "a string", "an object", "an array"}[k]
}

// Value is a value as it stands in the text.
type Value struct {
	Raw     string // the literal: a string with its quotes, an object with its braces
	Kind    Kind
	Escaped bool // a string that contains escapes
}

// Text returns a string's text, of any other value its literal. It shares
// memory with the scanned text, unless the string contains escapes.
func (v Value) Text() string {
	if v.Kind != String {
		return v.Raw
	}
	inner := v.Raw[1 : len(v.Raw)-1]
	if !v.Escaped {
		return inner
	}
	return string(appendDecoded(make([]byte, 0, len(inner)), inner))
}

// AppendText appends what Text returns. It never appends more than len(v.Raw)
// bytes.
func (v Value) AppendText(dst []byte) []byte {
	if v.Kind != String {
		return append(dst, v.Raw...)
	}
	inner := v.Raw[1 : len(v.Raw)-1]
	if !v.Escaped {
		return append(dst, inner...)
	}
	return appendDecoded(dst, inner)
}

// Members walks over the members of an object, in their order:
//
//	m := jsonscan.Read(text)
//	for m.Next() { use(m.Key, m.Value) }
//	err := m.Err()
//
// The text is validated as the walk goes on. Members that were handed out count
// only if the walk went to its end and Err is nil. A key that occurs twice is
// handed out twice. By custom the last one wins, and that is up to the caller.
type Members struct {
	Key   string // decoded
	Value Value
	Start int // where the member begins in the text: its key's first quote
	End   int // just behind its value

	walker
}

// walker is what the walks over objects and arrays share.
type walker struct {
	text  string
	state state
	err   error
}

type state uint8

const (
	atStart state = iota
	behindValue
	atEnd
)

// Read begins to walk over the members of the object that text is.
func Read(text string) Members { return Members{walker: walker{text: text}} }

// Err returns why Next stopped before the end, an *Error, or nil. An array's is that of
// a text without its bracket, if the text is JSON but no array.
func (w *walker) Err() error { return w.err }

// Next moves to the next member and reports whether there is one. After the
// last one it checks that nothing follows the object.
func (m *Members) Next() bool {
	s, i := m.text, m.End
	switch m.state {
	case atStart:
		i = Space(s, i)
		if i == len(s) || s[i] != '{' {
			return m.noObject()
		}
		i = Space(s, i+1)
		if i < len(s) && s[i] == '}' {
			return m.finish(i + 1)
		}
	case behindValue:
		i = Space(s, i)
		switch {
		case i < len(s) && s[i] == ',':
			i = Space(s, i+1)
		case i < len(s) && s[i] == '}':
			return m.finish(i + 1)
		default:
			return m.fail(i, wantCommaOrBrace)
		}
	default:
		return false
	}
	return m.member(i)
}

// member reads the member whose key begins at text[i].
func (m *Members) member(i int) bool {
	s := m.text
	if i == len(s) || s[i] != '"' {
		return m.fail(i, wantKey)
	}
	end, escaped, why := scanString(s, i+1)
	if why != fine {
		return m.fail(end, why)
	}
	m.Start, m.Key = i, s[i+1:end-1]
	if escaped {
		m.Key = string(appendDecoded(nil, m.Key))
	}
	i = Space(s, end)
	if i == len(s) || s[i] != ':' {
		return m.fail(i, wantColon)
	}
	i = Space(s, i+1)
	if i < len(s) && s[i] == '"' { // the commonest kind
		end, escaped, why = scanString(s, i+1)
		m.Value.Kind, m.Value.Escaped = String, escaped
	} else {
		end, m.Value.Kind, why = scanOther(s, i, 1)
		m.Value.Escaped = false
	}
	if why != fine {
		return m.fail(end, why)
	}
	m.Value.Raw = s[i:end]
	m.End, m.state = end, behindValue
	return true
}

// finish checks that only white space follows the object or array.
func (w *walker) finish(i int) bool {
	w.state = atEnd
	if i = Space(w.text, i); i < len(w.text) {
		return w.fail(i, wantEnd)
	}
	return false
}

// noObject says what the text is instead of an object.
func (m *Members) noObject() bool {
	m.state = atEnd
	v, err := Scan(m.text)
	if err == nil {
		err = &Error{Cause: CauseNotObject, Reason: "it is " + v.Kind.String()}
	}
	m.err = err
	return false
}

func (w *walker) fail(offset int, why reason) bool {
	w.state = atEnd
	w.err = newError(w.text, offset, why)
	return false
}

// Scan validates a text that is one JSON value of any kind, and returns it
// without the white space around it. The error is an *Error.
func Scan(text string) (Value, error) {
	start := Space(text, 0)
	v := Value{}
	end, why := start, fine
	if start < len(text) && text[start] == '"' {
		v.Kind = String
		end, v.Escaped, why = scanString(text, start+1)
	} else {
		end, v.Kind, why = scanOther(text, start, 0)
	}
	if why == fine {
		v.Raw = text[start:end]
		if end = Space(text, end); end < len(text) {
			why = wantEnd
		}
	}
	if why != fine {
		return Value{}, newError(text, end, why)
	}
	return v, nil
}
