package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"sluice"
)

// Bounds of fetching certificates of SNS.
const (
	maxCertificateBytes    = 64 << 10
	maxCertificates        = 32 // that are kept; SNS has one a region, and a new one each year
	certificateTimeout     = 5 * time.Second
	maxCertificateFetching = 2 // at a time

	// certificateRest is how long a failure stands for the next requests. SNS repeats
	// after 20 s or more.
	certificateRest = time.Second
)

// ErrNoCertificate is what an error of Verify wraps if a certificate of SNS cannot be
// fetched now. Whose the request is, is not known then: SNS has to post it again.
var ErrNoCertificate = errors.New("the certificate of SNS cannot be fetched")

// Certificates fetches certificates of SNS and keeps them. Its Get is for
// Access.Certificates; many goroutines may call it.
//
// While the network drops what goes to SNS, one call at a time tries a URL again and the
// others fail at once. Else each would wait, and hold the place of another provider.
type Certificates struct {
	client http.Client
	clock  sluice.Clock
	slots  chan struct{} // one is held while fetching

	mu     sync.Mutex
	kept   map[string][]byte   // by URL
	failed map[string]*failure // by URL
}

// failure is why a certificate could not be fetched.
type failure struct {
	err    error
	at     time.Time
	trying bool // a call fetches it again
}

// NewCertificates returns a Certificates that fetches by transport; nil is Go's own.
// Redirects are not followed: they would lead away from the host that was checked.
func NewCertificates(transport http.RoundTripper, clock sluice.Clock) *Certificates {
	return &Certificates{
		client: http.Client{
			Transport:     transport,
			Timeout:       certificateTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		clock:  clock,
		slots:  make(chan struct{}, maxCertificateFetching),
		kept:   make(map[string][]byte),
		failed: make(map[string]*failure),
	}
}

// Get returns the text at the URL of a certificate, which must pass SNSCertificateURL. It
// waits for the server of SNS once, five seconds at most. After a failure the calls that
// wait fail too, and those of certificateRest. An error wraps ErrRefused if the URL may
// not be fetched, and no other does.
func (c *Certificates) Get(ctx context.Context, address string) ([]byte, error) {
	if err := SNSCertificateURL(address); err != nil {
		return nil, err
	}
	if text, err := c.known(address, false); text != nil || err != nil {
		return text, err
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, fmt.Errorf("fetch %s: %w", address, ctx.Err())
	}
	if text, err := c.known(address, true); text != nil || err != nil { // another call has tried meanwhile
		return text, err
	}
	text, err := c.fetch(ctx, address)
	if err != nil {
		err = fmt.Errorf("fetch %s: %w", address, err)
	}
	c.note(address, text, err)
	return text, err
}

// known returns the text at a URL, or why it could not be fetched lately. It returns
// neither if it is to be fetched; with fetch, by the caller, now.
func (c *Certificates) known(address string, fetch bool) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if text, ok := c.kept[address]; ok {
		return text, nil
	}
	f := c.failed[address]
	if f == nil {
		return nil, nil
	}
	if age := c.clock.Now().Sub(f.at); f.trying || age >= 0 && age < certificateRest {
		return nil, f.err
	}
	f.trying = fetch
	return nil, nil
}

// note keeps what fetching has come to.
func (c *Certificates) note(address string, text []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		if len(c.failed) >= maxCertificates {
			clear(c.failed)
		}
		c.failed[address] = &failure{err: err, at: c.clock.Now()}
		return
	}
	delete(c.failed, address)
	if len(c.kept) >= maxCertificates {
		clear(c.kept)
	}
	c.kept[address] = text
}

func (c *Certificates) fetch(ctx context.Context, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	answer, err := c.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", answer.Status)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxCertificateBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxCertificateBytes {
		return nil, errors.New("it is too long for a certificate")
	}
	if _, err := readCertificate(text); err != nil {
		return nil, err
	}
	return text, nil
}
