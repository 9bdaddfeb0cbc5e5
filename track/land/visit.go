package land

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sluice"
	"sluice/lib/connlimit"
	"sluice/lib/jsonscan"
	"sluice/track/agent"
	"sluice/track/link"
)

// maxAgentBytes bounds what is kept of a user agent: what is read of it.
const maxAgentBytes = agent.MaxBytes

// visit is one open or click.
type visit struct {
	link.Place
	name  string // of the event
	url   string // where a click leads
	began time.Time
}

// record has a visit made durable.
func (s *Server) record(r *http.Request, v *visit) {
	ip := connlimit.Sender(r, s.o.Proxies)
	found := s.o.Judge.judge(r, ip)
	if found.Machine {
		s.counts.machines.Add(1)
	}
	s.counts.of(v.name).Add(1)
	e := sluice.Event{
		Kind: sluice.KindMail, Origin: sluice.OriginOwn, TimeMillis: v.began.UnixMilli(), ID: s.o.Recorder.nextID(v.Partition),
		Name: v.name, Message: v.Message, Properties: v.properties(r, ip, found),
	}
	s.o.Recorder.Record(&e, v.Partition)
}

// properties returns what is kept of a visit, a JSON object. ip and user_agent
// go after track.keep_addresses_days.
func (v *visit) properties(r *http.Request, ip netip.Addr, found Verdict) string {
	var room [512]byte
	b := append(append(append(room[:0], `{"send":"`...), v.Message...), '.') // the id of a send (mail.Send.ID)
	b = append(strconv.AppendInt(b, int64(v.Send), 10), '"')
	if v.url != "" {
		b = strconv.AppendInt(append(b, `,"link":`...), int64(v.Link), 10)
		b = jsonscan.AppendQuoted(append(b, `,"url":`...), strings.ToValidUTF8(v.url, "\uFFFD"))
	}
	b = strconv.AppendBool(append(b, `,"machine":`...), found.Machine)
	for _, member := range [...]struct{ name, text string }{
		{"reason", found.Reason}, {"proxy", found.Proxy}, {"ip", addressText(ip)}, {"user_agent", agentText(r.UserAgent())},
	} {
		if member.text != "" {
			b = append(append(append(b, `,"`...), member.name...), `":`...)
			b = jsonscan.AppendQuoted(b, member.text)
		}
	}
	return string(append(b, '}'))
}

func addressText(ip netip.Addr) string {
	if !ip.IsValid() {
		return ""
	}
	return ip.String()
}

// agentText is what is kept of a user agent.
func agentText(agent string) string {
	if len(agent) > maxAgentBytes {
		agent = agent[:maxAgentBytes]
	}
	if !utf8.ValidString(agent) {
		agent = strings.ToValidUTF8(agent, "")
	}
	return agent
}
