package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// Bounds of fetching certificates of SNS.
const (
	maxCertificateBytes    = 64 << 10
	maxCertificates        = 32 // that are kept; SNS has one a region, and a new one each year
	certificateTimeout     = 5 * time.Second
	maxCertificateFetching = 2 // at a time
)

// Certificates fetches certificates of SNS and keeps them. Its Get is for
// Access.Certificates; many goroutines may call it.
type Certificates struct {
	client http.Client
	slots  chan struct{} // one is held while fetching

	mu   sync.Mutex
	kept map[string][]byte // by URL
}

// NewCertificates returns a Certificates that fetches by transport; nil is Go's own.
// Redirects are not followed: they would lead away from the host that was checked.
func NewCertificates(transport http.RoundTripper) *Certificates {
	return &Certificates{
		client: http.Client{
			Transport:     transport,
			Timeout:       certificateTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		slots: make(chan struct{}, maxCertificateFetching),
		kept:  make(map[string][]byte),
	}
}

// Get returns the text at the URL of a certificate, which must pass SNSCertificateURL. It
// waits for the server of SNS once, five seconds at most; a failure is not kept.
func (c *Certificates) Get(ctx context.Context, address string) ([]byte, error) {
	if err := SNSCertificateURL(address); err != nil {
		return nil, err
	}
	if text, ok := c.known(address); ok {
		return text, nil
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, fmt.Errorf("fetch %s: %w", address, ctx.Err())
	}
	if text, ok := c.known(address); ok { // another call has fetched it meanwhile
		return text, nil
	}
	text, err := c.fetch(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", address, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.kept) >= maxCertificates {
		clear(c.kept)
	}
	c.kept[address] = text
	return text, nil
}

func (c *Certificates) known(address string) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, ok := c.kept[address]
	return text, ok
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
	if _, _, err := readChain(text); err != nil {
		return nil, err
	}
	return text, nil
}
