package api

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"sluice/mail"
)

const aMessage = "019a0000000000000000000000000abc"

// slowSends is a ledger that answers when it is let.
type slowSends struct {
	mail.SendStore
	asked, answer chan struct{}
}

func (s *slowSends) wait() {
	s.asked <- struct{}{}
	<-s.answer
}

func (s *slowSends) MessageSends(context.Context, string) ([]mail.SendRow, error) {
	s.wait()
	return []mail.SendRow{mail.NewSendRow(&mail.StoredSend{Send: mail.Send{Message: aMessage, Recipients: 1, Priority: mail.PriorityLow, Class: mail.ClassMarketing}})}, nil
}

func (s *slowSends) NewestSends(context.Context, mail.SendPlace, int) ([]mail.SendRow, error) {
	s.wait()
	return nil, nil
}

// Of requests that read sends few are under way at once; others are told to come again.
func TestLooksAtSendsAreBounded(t *testing.T) {
	x := startMails(t)
	slow := &slowSends{SendStore: x.store, asked: make(chan struct{}), answer: make(chan struct{})}
	x.p.sends = slow
	_, text := addKey(t, x.store, "messages:send", "status:read")
	paths := []string{messagesPath + "/" + aMessage, sendsPath, sendsPath + "?message=" + aMessage}
	server := x.url[:len(x.url)-len(messagesPath)]
	var asking sync.WaitGroup
	for i := range parallelSends {
		asking.Go(func() {
			callJSON(t, server+paths[i%len(paths)], http.MethodGet, "Bearer "+text, "", http.StatusOK, nil)
		})
		<-slow.asked
	}
	for _, path := range paths {
		callJSON(t, server+path, http.MethodGet, "Bearer "+text, "", http.StatusServiceUnavailable, nil)
	}
	close(slow.answer)
	asking.Wait()
}

// A place in the list of mail as earlier versions named it is refused by the parameter's name.
func TestPlaceOfAnEarlierVersion(t *testing.T) {
	if _, err := parseSendPlace(aMessage + ".0"); err == nil || !strings.Contains(err.Error(), "before is") {
		t.Errorf("%v", err)
	}
	if p, err := parseSendPlace(aMessage + ".3.1760000000000"); err != nil || p.Message != aMessage || p.Number != 3 || p.AcceptedMillis != 1_760_000_000_000 {
		t.Errorf("%+v, %v", p, err)
	}
}
