package journey

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// Place is where somebody was in a journey, on its way to the user who stays after a
// merge: the body of a FactPlace.
type Place struct {
	Record  Record
	Version int    // the whole number of the record's version; 0: it is not known
	Context string // an object; empty: there is none
	Ways    []int  // the branches that were taken
}

// placeText is the form of a Place.
type placeText struct {
	Record  string          `json:"record"` // hexadecimal
	Version int             `json:"version,omitempty"`
	Context json.RawMessage `json:"context,omitempty"`
	Ways    []int           `json:"ways,omitempty"`
}

// Text returns the place as a body.
func (p *Place) Text() string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // else <, > and & of the context have 6 bytes each, and it is longer than is kept
	if err := e.Encode(placeText{hex.EncodeToString(p.Record.Append(nil)), p.Version, json.RawMessage(p.Context), p.Ways}); err != nil {
		panic(err) // a context is an object that was read before
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// ReadPlace reads what Text wrote.
func ReadPlace(body string) (p Place, err error) {
	var text placeText
	if err := json.Unmarshal([]byte(body), &text); err != nil {
		return p, fmt.Errorf("read a place in a journey: %w", err)
	}
	raw, err := hex.DecodeString(text.Record)
	if err != nil {
		return p, fmt.Errorf("read a place in a journey: %w", err)
	}
	p.Version, p.Context, p.Ways = text.Version, string(text.Context), text.Ways
	return p, p.Record.Decode(raw)
}
