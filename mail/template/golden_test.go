package template

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"sluice/mail"
)

// golden names a file of cases in the form of the public suite golden-liquid. By default
// it is our own, all of which pass. Of the public one, whose text is not copied here,
// docs/templates.md lists what fails and why:
//
//	go test ./mail/template -run TestGolden -v -golden ../golden_liquid.json
var golden = flag.String("golden", ownGolden, "a file of cases in the form of golden-liquid")

const ownGolden = "testdata/liquid.json"

// goldenShare is the percentage of the public suite that has to pass.
const goldenShare = 95

type goldenCase struct {
	Name, Template, Result string
	Data                   json.RawMessage
	Results                []string
	Invalid                bool
}

// failed says what is wrong with what becomes of a case; empty: nothing.
func (c *goldenCase) failed() string {
	data := string(c.Data)
	if data == "null" {
		data = ""
	}
	v := mail.TemplateVersion{Subject: "s", HTML: "x", Text: c.Template, Class: mail.ClassMarketing}
	got := Message{}
	t, err := Compile(&v)
	if err == nil {
		got, err = t.Render(&Input{Variables: data})
	}
	want := append(c.Results, c.Result)
	switch {
	case c.Invalid && err == nil:
		return "it is taken, and gives " + got.Text
	case !c.Invalid && err != nil:
		return err.Error()
	case !c.Invalid && !slices.Contains(want, got.Text):
		return "got  " + got.Text + "\nwant " + strings.Join(want, " or ")
	}
	return ""
}

func goldenCases(t testing.TB, path string) []goldenCase {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var suite struct{ Tests []goldenCase }
	if err := json.Unmarshal(content, &suite); err != nil {
		t.Fatal(err)
	}
	return suite.Tests
}

// The cases of ours pass, and most of the public suite, if it is given.
func TestGolden(t *testing.T) {
	cases := goldenCases(t, *golden)
	passed, all := 0, len(cases)
	for i := range cases {
		c := &cases[i]
		why := c.failed()
		if why == "" {
			passed++
			continue
		}
		t.Logf("%s: %s\n%s\n%s", c.Name, c.Template, c.Data, why)
	}
	want := goldenShare
	if *golden == ownGolden {
		want = 100
	}
	if t.Logf("%d of %d pass", passed, all); all == 0 || passed*100 < all*want {
		t.Errorf("want %d percent", want)
	}
}
