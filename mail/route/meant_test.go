package route

import (
	"testing"

	"sluice/mail"
)

// By which route a mail goes that was not tried is known where the settings leave
// no choice.
func TestMeant(t *testing.T) {
	one, either, other, spare := named("one"), named("either"), named("other"), named("spare")
	one.Domains, either.Domains, other.Domains = []string{"one.example"}, []string{"two.example"}, []string{"two.example", "news.example"}
	other.Classes = []mail.Class{mail.ClassMarketing}
	spare.Domains, spare.Backup = []string{"one.example", "spare.example"}, true
	b := newBed(t, Options{Mode: AllowList, Allow: []string{"*.example"}, Routes: []Settings{one, either, other, spare}})
	for _, c := range []struct {
		to    string
		class mail.Class
		asked string
		want  string
	}{
		{to: "x@One.example", want: "one"}, {to: "x@one.example", asked: "spare", want: "spare"}, {to: "x@one.example", asked: "other"},
		{to: "x@two.example", want: "either"}, {to: "x@two.example", class: mail.ClassMarketing}, {to: "x@two.example", class: mail.ClassMarketing, asked: "other", want: "other"},
		{to: "x@news.example"}, {to: "x@spare.example", want: "spare"}, {to: "x@none.example"}, {to: "x@elsewhere.test", want: "sink"},
	} {
		if got := b.Meant(c.to, c.class, c.asked); got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}
