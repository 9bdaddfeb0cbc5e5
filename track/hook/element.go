package hook

import (
	"fmt"
	"slices"
	"strconv"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/track/agent"
)

// AppendElement appends the event as the JSON object that ingest.ParseEvent reads, the
// way of all events: with the event's own id and time, so that a repeat has both again.
// What is no field of an event stays in its properties under the names of `sluice hook
// parse`. What was made of a refusal or a program is beside `metadata`, as ingest judges
// it there, and no member of the sender's can stand in its place. source is the entry of
// the configuration.
func (e *Event) AppendElement(dst []byte, source string) []byte {
	dst = append(dst, `{"event":`...)
	dst = jsonscan.AppendQuoted(dst, e.Type)
	dst = jsonscan.AppendQuoted(append(dst, `,"event_id":`...), e.EventID)
	if e.Timed {
		dst = appendTime(append(dst, `,"time":`...), e.TimeMillis)
	}
	message, provider := e.MessageID, e.ProviderID
	if len(message) > sluice.MaxReferenceBytes {
		message = ""
	}
	if provider == message {
		provider = ""
	}
	for _, member := range [...]struct{ name, text string }{
		{`,"email":`, e.Recipient},
		{`,"message_id":`, message},
		{`,"provider_id":`, provider},
		{`,"reject_reason":`, string(e.RejectReason)},
		{`,"description":`, e.Description},
		{`,"mta_response":`, e.MTAResponse},
		{`,"user_agent":`, e.UserAgent},
		{`,"click_url":`, e.ClickURL},
		{`,"bot":`, e.Bot},
		{`,"bounce_class":`, e.BounceClass},
		{`,"status":`, e.Status},
		{`,"bounce_type":`, e.BounceType},
		{`,"bounce_subtype":`, e.BounceSubtype},
		{`,"hook":`, source},
	} {
		if member.text != "" {
			dst = jsonscan.AppendQuoted(append(dst, member.name...), member.text)
		}
	}
	if reason := e.machine(); reason != "" { // or it would count as a person's
		dst = append(dst, `,"machine":true,"reason":"`+reason+`"`...)
	}
	if e.OneOf > 1 {
		dst = strconv.AppendInt(append(dst, `,"one_of":`...), int64(e.OneOf), 10)
	}
	dst = appendTexts(dst, `,"tags":`, e.Tags)
	return append(appendMembers(dst, `,"metadata":`, e.Metadata), '}')
}

// agents are those of all sources.
var agents = agent.NewReader()

// reasonProvider says that the provider calls it a program's, in `bot`.
const reasonProvider = "provider"

// machine returns why an open or click is a program's: by its user agent, or because the
// provider says so. Empty: a person's. Providers call the proxies a program by which people
// see images at Google and Yahoo; by these a person has opened, as on our own pages. That
// there is no user agent says nothing here: few providers always tell it.
func (e *Event) machine() (reason string) {
	if e.Type != sluice.EventOpened && e.Type != sluice.EventClicked {
		return ""
	}
	by := agents.Read(e.UserAgent)
	switch {
	case by.Machine:
		return by.Reason
	case e.Bot != "" && by.Proxy == "":
		return reasonProvider
	}
	return ""
}

// appendTime appends a time as a number. Milliseconds of the first years after 1970 would
// be taken for seconds (package timetext): those are written as seconds.
func appendTime(dst []byte, millis int64) []byte {
	const secondsUpTo = 253402300799
	if millis > secondsUpTo {
		return strconv.AppendInt(dst, millis, 10)
	}
	return fmt.Appendf(dst, "%d.%03d", millis/1000, millis%1000)
}

// RepeatName returns a name of the events that have no time of their own, in whichever order
// they come: by it the time of a repeat is that of the first (ingest.Request).
func RepeatName(events []Event) string {
	ids := make([]string, len(events))
	for i := range events {
		ids[i] = events[i].EventID
	}
	slices.Sort(ids)
	return derived(ids...)
}

// appendTexts appends a list under a name, nothing if it is empty.
func appendTexts(dst []byte, name string, texts []string) []byte {
	if len(texts) == 0 {
		return dst
	}
	dst = append(dst, name...)
	for i, text := range texts {
		mark := byte(',')
		if i == 0 {
			mark = '['
		}
		dst = jsonscan.AppendQuoted(append(dst, mark), text)
	}
	return append(dst, ']')
}

// appendMembers appends an object under a name, nothing if it is empty.
func appendMembers(dst []byte, name string, members []Member) []byte {
	if len(members) == 0 {
		return dst
	}
	dst = append(dst, name...)
	for i, m := range members {
		mark := byte(',')
		if i == 0 {
			mark = '{'
		}
		dst = jsonscan.AppendQuoted(append(dst, mark), m.Name)
		dst = append(append(dst, ':'), m.Value...)
	}
	return append(dst, '}')
}
