package jsonscan

// Elements walks over the elements of an array, in their order:
//
//	e := jsonscan.ReadArray(text)
//	for e.Next() { use(e.Value) }
//	err := e.Err()
//
// The text is validated as the walk goes on, as with Members.
type Elements struct {
	Value Value

	at int
	walker
}

// ReadArray begins to walk over the elements of the array that text is.
func ReadArray(text string) Elements { return Elements{walker: walker{text: text}} }

// Next moves to the next element and reports whether there is one. After the
// last one it checks that nothing follows the array.
func (e *Elements) Next() bool {
	s, i := e.text, Space(e.text, e.at)
	switch e.state {
	case atStart:
		if i == len(s) || s[i] != '[' {
			return e.fail(i, wantArray)
		}
		i = Space(s, i+1)
		if i < len(s) && s[i] == ']' {
			return e.finish(i + 1)
		}
	case behindValue:
		switch {
		case i < len(s) && s[i] == ',':
			i = Space(s, i+1)
		case i < len(s) && s[i] == ']':
			return e.finish(i + 1)
		default:
			return e.fail(i, wantCommaOrBracket)
		}
	default:
		return false
	}
	start, why := i, fine
	e.Value = Value{}
	if i < len(s) && s[i] == '"' {
		e.Value.Kind = String
		i, e.Value.Escaped, why = scanString(s, i+1)
	} else {
		i, e.Value.Kind, why = scanOther(s, i, 1)
	}
	if why != fine {
		return e.fail(i, why)
	}
	e.Value.Raw = s[start:i]
	e.at, e.state = i, behindValue
	return true
}
