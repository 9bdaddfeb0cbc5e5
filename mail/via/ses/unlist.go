package ses

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"sluice"
	"sluice/lib/mime"
)

// listPath is where Amazon's list of an account is: addresses that bounced or
// complained, to which it sends nothing, whatever the sender.
const listPath = "/v2/email/suppression/addresses/"

// unlistAgain is how long a request waits that came too early: such calls are
// taken once a second (https://docs.aws.amazon.com/ses/latest/dg/quotas.html).
const unlistAgain = time.Second

// Unlist takes an address off the account's list (DeleteSuppressedDestination).
// One that is not there is as good. To repeat it does no harm, so what was asked
// too fast is repeated until ctx ends; other errors are the caller's.
func (t *Transport) Unlist(ctx context.Context, address string) error {
	if !mime.IsASCII(address) {
		return nil // SES takes none such, so it has none
	}
	path := listPath + escape(address)
	for {
		header := http.Header{"User-Agent": {"sluice"}}
		t.s.Credentials.sign(header, http.MethodDelete, t.host, listPath+escape(escape(address)), t.s.Region, nil, t.clock.Now())
		answer := t.Do(ctx, http.MethodDelete, t.url+path, header, nil)
		if answer.Status == 0 {
			return fmt.Errorf("take an address off the list of SES: %w", answer.Err)
		}
		if answer.Status == http.StatusOK || answer.Status == http.StatusNotFound {
			return nil
		}
		r := meaningOf(&answer)
		if !r.Throttled {
			return fmt.Errorf("take an address off the list of SES: %d %s", answer.Status, r.Text)
		}
		if err := sluice.Pause(ctx, unlistAgain); err != nil {
			return errors.Join(fmt.Errorf("take an address off the list of SES: %d %s", answer.Status, r.Text), err)
		}
	}
}

// escape escapes a part of a path as signatures have it: all but RFC 3986's
// unreserved characters.
func escape(part string) string {
	var b []byte
	for i := range len(part) {
		switch c := part[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_', c == '~':
			b = append(b, c)
		default:
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return string(b)
}

const upperHex = "0123456789ABCDEF"
