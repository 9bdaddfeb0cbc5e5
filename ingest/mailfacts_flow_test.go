package ingest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/journey"
	"sluice/lib/faults"
	"sluice/mail"
	"sluice/user"
	"sluice/user/profile"
	"sluice/user/users"
)

// mailOf asks for all that can happen to mail of one step.
func mailOf(step string) journey.Names {
	var n journey.Names
	for _, event := range journey.MailEvents {
		n.AddMail(event, journey.MailOf{Journey: "j", Step: step})
	}
	return n
}

// mailTo makes the n-th send, to a person, of a step of a journey.
func mailTo(n int, name, step string) mail.Send {
	s := aSend(n, "x")
	s.User, s.Journey, s.Step, s.Tags = name, "j", step, "a"
	return s
}

func opened(s *mail.Send, id, rest string) string {
	return fmt.Sprintf(`{"event":"open","event_id":%q,"time":1760000100,"message_id":%q%s}`, id, s.Message, rest)
}

// What happens to a mail is a fact once, whichever partitions the event, the send and
// the user are in, whichever way the event comes and however often, wherever a session
// ends.
func TestMailFactsAreExactlyOnce(t *testing.T) {
	sluice.WriteNewForms()
	onEachAlone(t, func(b *bed) {
		newPublisher(b).publish(mailOf("hello"))
		p := startPeopleWith(b, setup{lists: []listSetup{eventList("id")}})
		const n = 24
		for i := range n {
			p.send(attributes(external(i), `{"n":1}`))
		}
		b.eventually("all are there", func() bool { return b.count("users") == n })
		var sends []mail.Send
		for i := range n {
			sends = append(sends, mailTo(i, external(i).Name, []string{"hello", "other"}[i%3/2]))
		}
		for round, spec := range []string{"commit=error,2", "committed=error,2;forwarded=error,2", "transaction=error,2;forwarded=error,1"} {
			disarm, err := faults.Arm(spec)
			b.must(err)
			for i := range n {
				s := &sends[i]
				if i%3 != round {
					continue
				}
				sent := anOutcome(s, mail.SendWaiting, mail.SendSent, sluice.EventSent, 1)
				batch := mail.AppendOutcome(mail.AppendSend(sluice.NewBatch(0), s), &sent)
				p.e.write(i%testPartitions, fmt.Sprint("test", i), batch, batch) // the same once more
			}
			b.eventually("all are sent", func() bool {
				return strings.Join(b.query("SELECT COUNT(*) FROM sends WHERE state = 'sent'"), "") == fmt.Sprint((round+1)*n/3)
			})
			for i := range n {
				if i%3 != round {
					continue
				}
				s := &sends[i]
				by := []string{"", `,"email":"` + s.To + `"`, `,"user_id":"` + s.User + `"`}
				b.push("q", strings.Replace(opened(s, fmt.Sprint("l", i), by[i%3]), "event_id", "id", 1))
				p.post(opened(s, fmt.Sprint("r", i), by[(i+1)%3]))
				p.post(opened(s, fmt.Sprint("r", i), by[(i+1)%3]))
				p.post(strings.Replace(opened(s, fmt.Sprint("c", i), by[(i+2)%3]), "open", "click", 1))
			}
			b.eventually("all are in", func() bool {
				return strings.Join(b.query("SELECT COUNT(*) FROM events WHERE name IN ('opened', 'clicked')"), "") == fmt.Sprint((round+1)*n)
			})
			b.eventually("nothing is on its way", func() bool { return b.count("forwards") == 0 })
			disarm()
		}
		p.post(`{"event":"visit","event_id":"last","time":1760000100,"user_id":"u-0"}`)
		b.eventually("all facts are there", func() bool {
			columns := b.query("SELECT COUNT(*) FROM sends WHERE first_open IS NOT NULL AND first_click IS NOT NULL")
			counted := b.query("SELECT COALESCE(SUM(count), 0) >= ? FROM reactions", 4*n) // what was forwarded last may be in a log
			return b.countFacts() >= 4*n*2/3 && b.count("forwards") == 0 && columns[0] == fmt.Sprint(n) && counted[0] == "1"
		})
		p.e.stop()
		for what, want := range map[string]string{
			"kind = 'sent'": fmt.Sprint(n, " 0 0"), "kind = 'opened'": fmt.Sprintf("%d %d %d", 2*n, n, n), "kind = 'clicked'": fmt.Sprintf("%d %d %d", n, n, n),
			"campaign = 'a' AND journey = 'j' AND step IN ('hello', 'other')": fmt.Sprintf("%d %d %d", 4*n, 2*n, 2*n),
		} {
			var got []string
			for _, column := range []string{"count", "firsts", "human_firsts"} {
				got = append(got, b.query("SELECT COALESCE(SUM("+column+"), 0) FROM reactions WHERE "+what)...)
			}
			if strings.Join(got, " ") != want {
				b.Errorf("counted where %s: %v, want %s", what, got, want)
			}
		}
		if !p.e.log.has("injected failure") {
			b.Error("nothing failed: this test shows nothing")
		}
		for i := range n {
			body := fmt.Sprintf(`{"message":%q,"tags":"a","journey":"j","step":"hello"}`, sends[i].Message)
			got := b.facts(p.idOfAfter(external(i)))
			slices.Sort(got)
			want := []string{"8|clicked|" + body, "8|opened|" + body, "8|opened|" + body, "8|received|" + body}
			if i%3 == 2 {
				want = nil // nobody asks for its step
			}
			if !slices.Equal(got, want) {
				b.Errorf("facts of person %d:\n%s\nwant\n%s", i, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		if n := b.count("dead_letters"); n != 0 {
			b.Errorf("%d dead letters", n)
		}
	})
}

// Mail of somebody who was merged is that of who stays, also over two partitions. Mail
// of nobody, of whom was erased, and an event about no mail of ours are no facts.
func TestMailFactsOfMergedUsers(t *testing.T) {
	sluice.WriteNewForms()
	onEach(t, func(b *bed) {
		newPublisher(b).publish(mailOf("hello"))
		p := startPeople(b)
		for i := range 4 {
			p.send(attributes(external(i), `{"n":1}`))
			p.awaitUser("one is there", external(i), func(*profile.Profile) bool { return true })
		}
		var sends []mail.Send
		for i := range 4 {
			sends = append(sends, mailTo(i, external(i).Name, "hello"))
			p.e.write(p.idOf(external(i)).Partition, fmt.Sprint("test", i), mail.AppendSend(sluice.NewBatch(0), &sends[i]))
		}
		b.eventually("all are stored", func() bool { return b.count("sends") == 4 })
		stays, erased := p.idOf(external(1)), p.idOf(external(3))
		p.send(user.Update{Op: user.OpMerge, Key: external(0), Name: users.MergeName(external(1))}, user.Update{Op: user.OpDelete, Key: external(3)})
		b.eventually("they are merged and erased", func() bool {
			return p.who(external(3)) == nil && p.idOf(external(0)) == stays && b.count("forwards") == 0
		})
		p.post(opened(&sends[0], "a", ""))
		p.post(opened(&sends[3], "b", ""))
		p.post(`{"event":"open","event_id":"c","time":1760000100,"message_id":"0199c1b7dc0000000000000000000000"}`)
		p.post(`{"event":"open","event_id":"d","time":1760000100,"message_id":"x"}`)
		b.awaitSum("events", 4+4)
		b.eventually("it is known", func() bool {
			return b.query("SELECT COUNT(*) FROM journey_facts WHERE kind = 8")[0] != "0" && b.count("forwards") == 0
		})
		p.e.stop()
		all := b.facts(stays)
		if !slices.ContainsFunc(all, func(f string) bool { return strings.HasPrefix(f, "8|opened|") }) {
			b.Errorf("facts of who stays: %v", all)
		}
		for _, f := range b.facts(erased) {
			if strings.HasPrefix(f, "8|") {
				b.Errorf("a fact of who was erased: %s", f)
			}
		}
		if got := strings.Join(b.query("SELECT COUNT(*) FROM journey_facts WHERE kind = 8"), ""); got != "1" {
			b.Errorf("%s facts of mail, want 1", got)
		}
	})
}

// A bounce that is told twice of a mail, by a report that names its user and by a provider
// that names its address, counts once, in whichever partitions the two and the send are.
func TestBouncesCountOnce(t *testing.T) {
	sluice.WriteNewForms()
	onEachAlone(t, func(b *bed) {
		p := startPeopleWith(b, setup{})
		const n = 12
		for i := range n {
			s := mailTo(i, external(i).Name, "hello")
			sent := anOutcome(&s, mail.SendWaiting, mail.SendSent, sluice.EventSent, 1)
			p.e.write(i%testPartitions, fmt.Sprint("test", i), mail.AppendOutcome(mail.AppendSend(sluice.NewBatch(0), &s), &sent))
			b.eventually("it is sent", func() bool {
				return b.query("SELECT COUNT(*) FROM sends WHERE state = 'sent'")[0] == fmt.Sprint(i+1)
			})
			for _, by := range []string{`"user_id":"` + s.User + `"`, `"email":"` + s.To + `"`} {
				p.post(fmt.Sprintf(`{"event":"bounce","event_id":"%d %d","time":1760000100,"message_id":%q,"status":"5.1.1",%s}`, i, len(by), s.Message, by))
			}
		}
		b.eventually("all are in", func() bool {
			return b.query("SELECT COUNT(*) FROM events WHERE name = 'bounced'")[0] == fmt.Sprint(2*n) && b.count("forwards") == 0
		})
		counted := "SELECT COALESCE(SUM(count), 0) FROM reactions WHERE kind = 'bounced_hard'"
		b.eventually("they are counted", func() bool {
			return b.query("SELECT COALESCE(SUM(count), 0) >= ? FROM reactions WHERE kind = 'bounced_hard'", n)[0] == "1"
		})
		p.e.stop()
		if got := b.query(counted)[0]; got != fmt.Sprint(n) {
			b.Errorf("%s bounces are counted, want %d", got, n)
		}
	})
}
